----------------------------- MODULE settlement -----------------------------
(***************************************************************************)
(* The settlement protocol, for a reader who knows its words: transaction, *)
(* scope, hold, claim, position, floor, version.                           *)
(*                                                                         *)
(* A transaction is a program of steps, each of which touches a scope:     *)
(*                                                                         *)
(*   "read"   is made at once, of settled state only;                      *)
(*   "eager"  runs at once under a claim, and is undone by an abort;       *)
(*   "final"  runs at once too, but cannot be undone cleanly: its claim    *)
(*            also waits for every older holder;                           *)
(*   "held"   is kept back, and leaves when its transaction has committed; *)
(*   "last"   is kept back too, and cannot be undone when it has left: so  *)
(*            what is held and can still fail leaves before it;            *)
(*   "fail"   touches nothing: the transaction fails there;                *)
(*   "add"    runs at once, and *commutes* with all of its group;          *)
(*   "multiply" does so too, in a group of its own;                        *)
(*   "add held" is of the group of "add", and is kept back.                *)
(*                                                                         *)
(* Effects of one group on one scope may happen in any order. Each adds    *)
(* something of its own, and its undo takes just that away again.          *)
(*                                                                         *)
(* What the rules are for stands at the end, as invariants. Every rule     *)
(* that can be dropped has a name, and breaks something when it is named   *)
(* in Without. `tests/core/tla` compares all that can be reached here with *)
(* all that the engine's own protocol reaches, state by state.             *)
(*                                                                         *)
(* Left out: what a run has read in earlier turns, releases that are       *)
(* refused, effects whose outcome is unknown, cancellation, nesting,       *)
(* speculation, and holds for work to come.                                *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Transactions,  \* numbered in the order in which they begin
  Scopes,        \* of "x", "y", "z", and "p", the parent of x and y
  Kinds,         \* of the nine above
  Length,        \* the most steps a program has
  Declaring,     \* those that declare when they begin that they may touch every scope
  Without        \* names of rules that are dropped

Step     == [kind : Kinds, scope : Scopes]
Programs == UNION {[1..length -> Step] : length \in 1..Length}
Plans    == [Transactions -> Programs]  \* which programs may meet: a model may narrow it

Rule(name) == name \notin Without

-----------------------------------------------------------------------------
(* SCOPES. Two of them overlap when they share a cell of the world.        *)

Cells(scope)      == IF scope = "p" THEN {"x", "y"} ELSE {scope}
Overlap(one, two) == Cells(one) \cap Cells(two) # {}
World             == UNION {Cells(scope) : scope \in Scopes}

(***************************************************************************)
(* VALUES name who wrote them: <<transaction, attempt, step>>, and what    *)
(* has been added since: in blocks of one group each, whose order counts,  *)
(* and in each how often each one has added, since within it none counts.  *)
(***************************************************************************)
Unwritten == [by |-> <<0, 0, 0>>, added |-> <<>>]

Highest(numbers) == CHOOSE n \in numbers \cup {0} : \A m \in numbers : m <= n

Put(function, key, value) ==
  [k \in DOMAIN function \cup {key} |-> IF k = key THEN value ELSE function[k]]
Only(function, keys) == [k \in DOMAIN function \cap keys |-> function[k]]
Last(sequence)       == sequence[Len(sequence)]
Front(sequence)      == SubSeq(sequence, 1, Len(sequence) - 1)
Items(sequence)      == {sequence[i] : i \in DOMAIN sequence}

Group(kind) == CASE kind \in {"add", "add held"} -> "add" [] kind = "multiply" -> "multiply" [] OTHER -> ""

(* How often each one has added is a set of pairs: <<who, times>>.         *)
Times(many, who) == Highest({pair[2] : pair \in {p \in many : p[1] = who}})

Changed(value, who, group) ==
  LET blocks == value.added
      joins  == blocks # <<>> /\ Last(blocks).group = group
      many   == IF joins THEN Last(blocks).many ELSE {}
      more   == {pair \in many : pair[1] # who} \cup {<<who, Times(many, who) + 1>>}
  IN IF group = "" THEN [by |-> who, added |-> <<>>]
     ELSE [value EXCEPT !.added =
            Append(IF joins THEN Front(blocks) ELSE blocks, [group |-> group, many |-> more])]

(* What is left when each of some has taken away once what it has added.   *)
OneLess(many, some) ==
  {pair \in {<<p[1], IF p[1] \in some THEN p[2] - 1 ELSE p[2]>> : p \in many} : pair[2] > 0}

Less(value, some) ==
  LET blocks == [i \in DOMAIN value.added |->
                  [group |-> value.added[i].group, many |-> OneLess(value.added[i].many, some)]]
  IN [value EXCEPT !.added = SelectSeq(blocks, LAMBDA block : block.many # {})]

Added(value) == UNION {{pair[1] : pair \in block.many} : block \in Items(value.added)}

-----------------------------------------------------------------------------
VARIABLES
  program,  \* what each transaction does; it never changes
  txn,      \* what the protocol knows of each transaction
  floor,    \* scope -> the highest position that settled with it in its footprint
  version,  \* cell -> the number of the last committed write to it
  world,    \* cell -> the value that stands there
  left,     \* the held effects that have left
  order     \* the transactions in the order of their commit decisions

vars == <<program, txn, floor, version, world, left, order>>

Nothing == [none \in {} |-> 0]

(***************************************************************************)
(* Holds and claims remember when they were taken, by one clock: who was   *)
(* there first decides between a wound and a restamp.                      *)
(***************************************************************************)
New == [
  state    |-> "new",
  reason   |-> "",
  attempt  |-> 0,
  position |-> 0,        \* its one epoch, for its whole footprint
  step     |-> 1,
  call     |-> "",       \* of its present step: "waits", "reading" or "acting"
  holds    |-> Nothing,  \* scope -> when it was taken
  stands   |-> Nothing,  \* scope -> the group that the hold stands for; "" once it stands for anything else
  declared |-> {},       \* those of them that were declared and not touched yet
  claims   |-> Nothing,  \* scope -> when it was granted
  ran      |-> <<>>,     \* effects that ran at once: [step, was], was: the values it replaced
  kept     |-> <<>>,     \* steps of the effects that are kept back
  reads    |-> Nothing,  \* scope -> the version that was last when it was read
  saw      |-> <<>>]     \* what its reads returned: [step, seen]

-----------------------------------------------------------------------------
(* What follows takes the transactions as an argument, T: one step of the  *)
(* protocol may move several of them, one after the other.                 *)

Fresh(T) == 1 + Highest({T[t].position : t \in Transactions})  \* epochs are never reused
Now(T)   == 1 + Highest(UNION {{T[t].holds[s] : s \in DOMAIN T[t].holds}
                          \cup {T[t].claims[s] : s \in DOMAIN T[t].claims} : t \in Transactions})

Scope(t, step)  == program[t][step].scope
KeptOn(T, t)    == {Scope(t, step) : step \in Items(T[t].kept)}
Wrote(T, t)     == T[t].ran # <<>> \/ T[t].kept # <<>>
Older(T, u, t)  == T[u].position < T[t].position
Unsettled(T, t) == T[t].state \in {"open", "sealed"}
Unfinished      == {t \in Transactions : txn[t].state \in {"open", "sealed", "releasing", "aborting"}}
Others(t)       == Transactions \ {t}

OnAny(scopes, scope) == \E s \in scopes : Overlap(s, scope)

Holds(T, t, scope) == OnAny(DOMAIN T[t].holds, scope)

(***************************************************************************)
(* COMMUTING. Two holds of one scope commute when both stand for effects   *)
(* of one group, and for nothing else. What was only declared may yet be   *)
(* touched in any way.                                                     *)
(***************************************************************************)
GroupOf(t, step) ==
  LET group == Group(program[t][step].kind)
  IN CASE ~ Rule("groups commute")                -> ""
       [] group # "" /\ ~ Rule("groups differ")   -> "any"
       [] OTHER                                   -> group

StandsFor(T, t, scope) == IF scope \in DOMAIN T[t].stands THEN T[t].stands[scope] ELSE ""

Commute(T, t, mine, u, theirs) ==
  /\ mine = theirs
  /\ StandsFor(T, t, mine) # ""
  /\ StandsFor(T, t, mine) = StandsFor(T, u, theirs)
  /\ theirs \notin T[u].declared

(* Holds of others on the way, but for those that commute with its own.    *)
Beside(T, t, scope, u) == {s \in DOMAIN T[u].holds : Overlap(s, scope) /\ ~ Commute(T, t, scope, u, s)}

(* Busy: it acts there, or may yet undo or release something there.        *)
BusyOn(T, t, scopes) ==
  \/ DOMAIN T[t].claims \cap scopes # {}
  \/ T[t].state = "releasing" /\ KeptOn(T, t) \cap scopes # {}

ReadsOn(T, t, scopes) == T[t].call = "reading" /\ Scope(t, T[t].step) \in scopes

(* Active: more than a hold. A younger claim has to wait for it.           *)
ActiveOn(T, t, scopes) ==
  \/ BusyOn(T, t, scopes)
  \/ T[t].call \in {"waits", "reading"} /\ Scope(t, T[t].step) \in scopes
  \/ Rule("claims wait for held effects") /\ KeptOn(T, t) \cap scopes # {}

(***************************************************************************)
(* FLOORS AND VERSIONS are asked by overlap. A read is stale when another  *)
(* has committed an overlapping write since; versions are compared, never  *)
(* values.                                                                 *)
(***************************************************************************)
Floor(scope)   == Highest({floor[s] : s \in {s \in Scopes : Overlap(s, scope)}})
Version(scope) == Highest({version[cell] : cell \in Cells(scope)})
LastWrite      == Highest({version[cell] : cell \in World})

Outdated(t, scope) == Version(scope) > txn[t].reads[scope]
Stale(t)           == Rule("stale") /\ \E scope \in DOMAIN txn[t].reads : Outdated(t, scope)

-----------------------------------------------------------------------------
(***************************************************************************)
(* RESTAMP. A transaction gets a fresh epoch. It takes along, in their     *)
(* order, the younger unfinished holders of what it claims, and theirs:    *)
(* else they would come to wait for somebody younger. One that aborts is   *)
(* moved when a retry is to come, which will have its position.            *)
(***************************************************************************)
Retried(T, t) == T[t].reason \in {"stale", "wounded"}

Behind(T, t) == {u \in Others(t) :
  /\ Older(T, t, u)
  /\ Unsettled(T, u) \/ (T[u].state = "aborting" /\ Retried(T, u))
  /\ \E scope \in DOMAIN T[t].claims : Holds(T, u, scope)}

RECURSIVE Train(_, _)
Train(T, moved) ==
  LET more == moved \cup UNION {Behind(T, t) : t \in moved}
  IN IF more = moved THEN moved ELSE Train(T, more)

Followers(T, t) == IF Rule("followers") THEN Train(T, {t}) \ {t} ELSE {}

Restamped(T, t) ==
  LET after    == Followers(T, t)
      Place(u) == IF u = t THEN 0 ELSE 1 + Cardinality({v \in after : Older(T, v, u)})
  IN IF Rule("restamp")
     THEN [u \in Transactions |->
            IF u \in {t} \cup after THEN [T[u] EXCEPT !.position = Fresh(T) + Place(u)] ELSE T[u]]
     ELSE T

(***************************************************************************)
(* ABORT. What is kept back is dropped at once; what ran is to be undone,  *)
(* and until then the scope stays claimed. With nothing to undo it is over *)
(* in the same step, and so a retry begins in that step: it keeps the      *)
(* position, and takes over the footprint as declared holds. What stood    *)
(* for more than a group still does: else a retry would claim it beside an *)
(* older one of its group that waits, be wounded by that, and so on.       *)
(***************************************************************************)
Mixed(t) == Only(txn[t].stands, {s \in DOMAIN txn[t].stands : txn[t].stands[s] = ""})

Over(T, t) ==
  [T EXCEPT ![t] =
    IF Retried(T, t)
    THEN [New EXCEPT
           !.state = "open", !.attempt = T[t].attempt + 1, !.position = T[t].position,
           !.holds = T[t].holds, !.declared = DOMAIN T[t].holds,
           !.stands = Mixed(t)]
    ELSE [New EXCEPT
           !.state = "aborted", !.reason = T[t].reason, !.attempt = T[t].attempt,
           !.position = T[t].position, !.step = T[t].step]]

Aborting(T, t, reason) ==
  [T EXCEPT ![t].state  = "aborting",
            ![t].reason = reason,
            ![t].call   = IF @ = "acting" THEN @ ELSE "",  \* who acts comes back first
            ![t].kept   = <<>>,
            ![t].reads  = Nothing,
            ![t].saw    = <<>>]

Aborted(T, t, reason) ==
  LET aborting == Aborting(T, t, reason)
  IN IF T[t].ran = <<>> THEN Over(aborting, t) ELSE aborting

-----------------------------------------------------------------------------
(***************************************************************************)
(* TOUCHING a scope: the four things a request does before it is granted   *)
(* or waits.                                                               *)
(*                                                                         *)
(* 1. One that is to act on what it has read, and has read what is no      *)
(*    longer true, aborts: Ask sees to that.                               *)
(* 2. At a scope that it does not hold yet, and whose floor has reached    *)
(*    it, it is restamped: all at or below a floor is final.               *)
(* 3. It holds the scope, also while it waits.                             *)
(* 4. A younger's claim there must not be waited for. Who held part of the *)
(*    claimed scope first, or has a claim itself, wounds the younger; else *)
(*    it is restamped above it. They are met oldest first. Claims of its   *)
(*    own group are not met.                                               *)
(***************************************************************************)

(* Where a hold stands for a group, others of that may have settled above  *)
(* it: for anything else but more of that it does not count.               *)
StandsAlone(T, t, s, scope) ==
  \/ ~ Rule("stands alone")
  \/ StandsFor(T, t, s) = ""
  \/ s \in T[t].declared
  \/ s = scope /\ StandsFor(T, t, s) = GroupOf(t, T[t].step)

Covered(T, t, scope) == \E s \in DOMAIN T[t].holds :
  Cells(scope) \subseteq Cells(s) /\ StandsAlone(T, t, s, scope)

AboveFloor(T, t, scope) ==
  IF ~ Covered(T, t, scope) /\ Floor(scope) >= T[t].position THEN Restamped(T, t) ELSE T

Holding(T, t, scope) ==
  [T EXCEPT ![t].holds = IF scope \in DOMAIN @ THEN @ ELSE Put(@, scope, Now(T))]

(* What it once stood for it still stands for.                             *)
Standing(T, t, scope) ==
  LET group  == GroupOf(t, txn[t].step)
      before == txn[t].stands
      now    == IF scope \in DOMAIN before /\ before[scope] # group THEN "" ELSE group
  IN [T EXCEPT ![t].stands = Put(before, scope, now)]

Claimed(T, t, scope, u) == DOMAIN T[u].claims \cap Beside(T, t, scope, u)

Rivals(T, t, scope) == {u \in Others(t) :
  Older(T, t, u) /\ Unsettled(T, u) /\ Claimed(T, t, scope, u) # {}}

(* Of several claims of one rival the one counts whose scope it held first. *)
Met(T, t, u, scope) == CHOOSE claimed \in Claimed(T, t, scope, u) :
  \A s \in Claimed(T, t, scope, u) : T[u].holds[claimed] <= T[u].holds[s]

WasThereFirst(T, t, u, claimed) == \E s \in DOMAIN T[t].holds :
  Overlap(s, claimed) /\ T[t].holds[s] < T[u].claims[claimed]

Wounds(T, t, u, scope) == DOMAIN T[t].claims # {} \/ WasThereFirst(T, t, u, Met(T, t, u, scope))

MeetClaims(T, t, scope) ==
  LET rivals  == Rivals(T, t, scope)
      stops   == {u \in rivals : ~ Wounds(T, t, u, scope)}
      wounded == {u \in rivals \ stops : \A v \in stops : Older(T, u, v)}
      after   == [u \in Transactions |-> IF u \in wounded THEN Aborting(T, u, "wounded")[u] ELSE T[u]]
  IN IF rivals = {} \/ ~ Rule("wound") THEN T ELSE IF stops = {} THEN after ELSE Restamped(after, t)

Touched(T, t, scope) ==
  LET held == IF T[t].call = "waits" THEN T ELSE Holding(AboveFloor(T, t, scope), t, scope)
  IN MeetClaims(Standing(held, t, scope), t, scope)

(***************************************************************************)
(* WAITING. Every wait goes from a larger position to a smaller one, but   *)
(* for short ones: for an undo, a release or a read, which wait for nobody *)
(* that waits back.                                                        *)
(***************************************************************************)
InAGroup(T, t) == \E s \in DOMAIN T[t].holds : StandsFor(T, t, s) # ""

WaitsOn(T, t, mode, scope, u) ==
  LET others == Beside(T, t, scope, u)
  IN CASE mode = "held" -> FALSE
       [] mode = "read" -> /\ Rule("settled reads")
                           /\ Rule("reads wait for groups") \/ ~ InAGroup(T, u)
                           /\ BusyOn(T, u, others)
       [] OTHER         -> /\ Rule("exclusion")
                           /\ \/ BusyOn(T, u, others)
                              \/ ReadsOn(T, u, {s \in DOMAIN T[u].holds : Overlap(s, scope)})
                              \/ Older(T, u, t) /\ ActiveOn(T, u, others)
                              \/ Older(T, u, t) /\ mode = "final" /\ others # {}

HasToWait(T, t, mode, scope) == \E u \in Others(t) : WaitsOn(T, t, mode, scope, u)

(* An effect that overlaps the transaction's own held one is held too.     *)
Mode(t) ==
  LET step   == program[t][txn[t].step]
      atOnce == step.kind \in {"eager", "final", "add", "multiply"}
  IN CASE atOnce /\ OnAny(KeptOn(txn, t), step.scope) -> "held"
       [] step.kind \in {"last", "add held"}           -> "held"
       [] step.kind \in {"add", "multiply"}            -> "eager"
       [] OTHER                                        -> step.kind

(* What an undo puts back; of what was added it takes that away instead.   *)
Subtracts(t, step) == Rule("inverses") /\ Group(program[t][step].kind) # ""
Replaced(t, step)  == [cell \in IF Subtracts(t, step) THEN {} ELSE Cells(Scope(t, step)) |-> world[cell]]

(* Only now, for who gives up waiting still has what it declared.          *)
Granted(T, t, mode, scope) ==
  CASE mode = "read" ->
         [T EXCEPT ![t].call     = "reading",
                   ![t].declared = @ \ {scope},
                   ![t].reads    = IF scope \in DOMAIN @ THEN @ ELSE Put(@, scope, LastWrite)]
    [] mode = "held" ->
         [T EXCEPT ![t].call = "", ![t].step = @ + 1, ![t].declared = @ \ {scope},
                   ![t].kept = Append(@, T[t].step)]
    [] OTHER ->
         [T EXCEPT ![t].call     = "acting",
                   ![t].declared = @ \ {scope},
                   ![t].claims   = IF scope \in DOMAIN @ THEN @ ELSE Put(@, scope, Now(T)),
                   ![t].ran      = Append(@, [step |-> T[t].step, was |-> Replaced(t, T[t].step)])]

-----------------------------------------------------------------------------
(* THE STEPS OF THE PROTOCOL                                               *)

Begin(t) ==
  /\ txn[t].state = "new"
  /\ \A u \in Transactions : u < t => txn[u].state # "new"
  /\ LET declared == IF t \in Declaring THEN Scopes ELSE {}
         Place(s) == CHOOSE i \in 1..4 : <<"x", "y", "z", "p">>[i] = s
     IN txn' = [txn EXCEPT ![t].state    = "open",
                           ![t].attempt  = 1,
                           ![t].position = Fresh(txn),
                           ![t].declared = declared,
                           ![t].holds    = [s \in declared |-> Now(txn) + Place(s)]]
  /\ UNCHANGED <<program, floor, version, world, left, order>>

IsAt(t, kinds) ==
  /\ txn[t].state = "open"
  /\ txn[t].step \in DOMAIN program[t]
  /\ program[t][txn[t].step].kind \in kinds

(* Without this rule others take it for what it stood for at first.        *)
StillFor(t, scope, T) ==
  IF Rule("stands for all") \/ StandsFor(txn, t, scope) = "" THEN T
  ELSE [T EXCEPT ![t].stands = txn[t].stands]

(* A request, and again after it has waited: only when it changes anything. *)
Ask(t) ==
  /\ IsAt(t, Kinds \ {"fail"})
  /\ txn[t].call \in {"", "waits"}
  /\ LET scope   == Scope(t, txn[t].step)
         mode    == Mode(t)
         touched == Touched(txn, t, scope)
     IN txn' = IF mode \in {"eager", "final"} /\ Stale(t) THEN Aborted(txn, t, "stale")
               ELSE StillFor(t, scope, IF HasToWait(touched, t, mode, scope)
                                       THEN [touched EXCEPT ![t].call = "waits"]
                                       ELSE Granted(touched, t, mode, scope))
  /\ txn' # txn
  /\ UNCHANGED <<program, floor, version, world, left, order>>

(* What stands on a cell when steps of a transaction were done to it.      *)
RECURSIVE After(_, _, _, _)
After(value, t, steps, cell) ==
  IF steps = <<>> THEN value
  ELSE LET step == Head(steps)
           next == IF cell \notin Cells(Scope(t, step)) THEN value
                   ELSE Changed(value, <<t, txn[t].attempt, step>>, Group(program[t][step].kind))
       IN After(next, t, Tail(steps), cell)

(* A read sees the world, and what its own transaction keeps back.         *)
Seen(t, cell) == After(world[cell], t, txn[t].kept, cell)

ReadReturns(t) ==
  /\ txn[t].call = "reading"
  /\ LET seen == [cell \in Cells(Scope(t, txn[t].step)) |-> Seen(t, cell)]
     IN txn' = [txn EXCEPT ![t].call = "", ![t].step = @ + 1,
                           ![t].saw = Append(@, [step |-> txn[t].step, seen |-> seen])]
  /\ UNCHANGED <<program, floor, version, world, left, order>>

Written(t, step) == [cell \in World |-> After(world[cell], t, <<step>>, cell)]

(* Also when its transaction was wounded meanwhile: nobody calls it back.  *)
EffectReturns(t) ==
  /\ txn[t].call = "acting"
  /\ world' = Written(t, txn[t].step)
  /\ txn' = [txn EXCEPT ![t].call = "", ![t].step = @ + 1]
  /\ UNCHANGED <<program, floor, version, left, order>>

Fail(t) ==
  /\ IsAt(t, {"fail"})
  /\ txn' = Aborted(txn, t, "failed")
  /\ UNCHANGED <<program, floor, version, world, left, order>>

(* From here on the footprint cannot grow; what was only declared drops.   *)
Seal(t) ==
  /\ txn[t].state = "open"
  /\ txn[t].step = Len(program[t]) + 1
  /\ txn' = [txn EXCEPT ![t].state    = "sealed",
                        ![t].holds    = Only(@, DOMAIN @ \ txn[t].declared),
                        ![t].declared = {}]
  /\ UNCHANGED <<program, floor, version, world, left, order>>

(***************************************************************************)
(* THE COMMIT RULE. (1) The transaction is the oldest unfinished holder on *)
(* every scope it touched, but for those that commute with it there, and   *)
(* no undo is running where its held effects will land: until then it      *)
(* waits. (2) Every read is current: else it aborts, and is retried on     *)
(* fresh state. One that wrote nothing skips (1) and raises no floor.      *)
(***************************************************************************)
WaitsBehind(t, u) ==
  /\ Rule("frontier")
  /\ Wrote(txn, t)
  /\ \E scope \in DOMAIN txn[t].holds :
       LET others == Beside(txn, t, scope, u)
       IN \/ Older(txn, u, t) /\ others # {} /\ (Rule("only its group") \/ StandsFor(txn, t, scope) = "")
          \/ txn[u].state = "aborting" /\ scope \in KeptOn(txn, t) /\ BusyOn(txn, u, others)

Waits(t) == \E u \in Others(t) : WaitsBehind(t, u)

Committed(t) == [New EXCEPT !.state = "committed", !.attempt = txn[t].attempt,
                            !.position = txn[t].position, !.step = txn[t].step, !.saw = txn[t].saw]

Decide(t) ==
  /\ txn[t].state = "sealed"
  /\ ~ Stale(t)
  /\ ~ Waits(t)
  /\ LET footprint == IF Wrote(txn, t) THEN DOMAIN txn[t].holds ELSE {}
         written   == UNION {Cells(scope) : scope \in DOMAIN txn[t].claims \cup KeptOn(txn, t)}
     IN /\ floor' = [s \in Scopes |-> IF s \in footprint THEN Highest({floor[s], txn[t].position}) ELSE floor[s]]
        /\ version' = [cell \in World |-> IF cell \in written THEN LastWrite + 1 ELSE version[cell]]
  /\ txn' = [txn EXCEPT ![t] = IF @.kept = <<>> THEN Committed(t)
                               ELSE [@ EXCEPT !.state = "releasing", !.reads = Nothing]]
  /\ order' = Append(order, t)
  /\ UNCHANGED <<program, world, left>>

AbortStale(t) ==
  /\ txn[t].state = "sealed"
  /\ Stale(t)
  /\ txn' = Aborted(txn, t, "stale")
  /\ UNCHANGED <<program, floor, version, world, left, order>>

(***************************************************************************)
(* Held effects leave one by one, as they were issued, but what cannot be  *)
(* undone lets go before it whatever else there is. Where scopes overlap   *)
(* the order is kept. It holds its footprint until all have left.          *)
(***************************************************************************)
IsLast(t, step) == program[t][step].kind = "last"

LeavesNext(t) ==
  LET kept    == txn[t].kept
      Tied(i) == \E j \in 1..(i - 1) : Overlap(Scope(t, kept[j]), Scope(t, kept[i]))
      free    == {i \in DOMAIN kept : ~ IsLast(t, kept[i]) /\ ~ Tied(i)}
  IN IF Rule("last") /\ free # {} THEN CHOOSE i \in free : \A j \in free : i <= j ELSE 1

Release(t) ==
  /\ txn[t].state = "releasing"
  /\ LET next == LeavesNext(t)
         step == txn[t].kept[next]
         rest == SubSeq(txn[t].kept, 1, next - 1) \o SubSeq(txn[t].kept, next + 1, Len(txn[t].kept))
     IN /\ world' = Written(t, step)
        /\ left' = left \cup {<<t, txn[t].attempt, step>>}
        /\ txn' = [txn EXCEPT ![t] = IF rest = <<>> THEN Committed(t) ELSE [@ EXCEPT !.kept = rest]]
  /\ UNCHANGED <<program, floor, version, order>>

(* Undone in reverse order, while the scope is still the undoer's own, or  *)
(* its group's. It waits for nobody but its own call.                      *)
Undo(t) ==
  /\ txn[t].state = "aborting"
  /\ txn[t].call = ""
  /\ LET effect  == Last(txn[t].ran)
         rest    == Front(txn[t].ran)
         claimed == {Scope(t, rest[i].step) : i \in DOMAIN rest}
         undone  == [txn EXCEPT ![t].ran = rest, ![t].claims = Only(@, claimed)]
         own     == {<<t, txn[t].attempt, effect.step>>}
     IN /\ world' = [cell \in World |->
                       IF cell \in DOMAIN effect.was THEN effect.was[cell]
                       ELSE IF cell \in Cells(Scope(t, effect.step)) THEN Less(world[cell], own)
                       ELSE world[cell]]
        /\ txn' = IF rest = <<>> THEN Over(undone, t) ELSE undone
  /\ UNCHANGED <<program, floor, version, left, order>>

AllOver == \A t \in Transactions : txn[t].state \in {"committed", "aborted"}

Init ==
  /\ program \in Plans
  /\ txn     = [t \in Transactions |-> New]
  /\ floor   = [scope \in Scopes |-> 0]
  /\ version = [cell \in World |-> 0]
  /\ world   = [cell \in World |-> Unwritten]
  /\ left    = {}
  /\ order   = <<>>

Move(t) ==
  \/ Begin(t) \/ Ask(t) \/ ReadReturns(t) \/ EffectReturns(t) \/ Fail(t)
  \/ Seal(t) \/ Decide(t) \/ AbortStale(t) \/ Release(t) \/ Undo(t)

(* Only when all are over may nothing move: else TLC reports a deadlock.   *)
Next == (\E t \in Transactions : Move(t)) \/ (AllOver /\ UNCHANGED vars)

Spec == Init /\ [][Next]_vars /\ WF_vars(\E t \in Transactions : Move(t))

-----------------------------------------------------------------------------
(* WHAT THE RULES ARE FOR                                                  *)

(* What the first n to commit leave on a cell when they run one by one.    *)
Writing(t, many) == SelectSeq([step \in 1..many |-> step], LAMBDA step : program[t][step].kind # "read")

RECURSIVE SerialValue(_, _)
SerialValue(n, cell) ==
  IF n = 0 THEN Unwritten
  ELSE After(SerialValue(n - 1, cell), order[n], Writing(order[n], Len(program[order[n]])), cell)

SerialRead(n, step, cell) == After(SerialValue(n - 1, cell), order[n], Writing(order[n], step - 1), cell)

(* Every committed read saw what it would have seen in the commit order.   *)
Serializable == \A n \in DOMAIN order : \A i \in DOMAIN txn[order[n]].saw :
  LET read == txn[order[n]].saw[i]
  IN \A cell \in DOMAIN read.seen : read.seen[cell] = SerialRead(n, read.step, cell)

(* Where nobody acts, the world is as if the committed had run one by one: *)
(* no write and no addition is lost, doubled, or left by who was undone.   *)
(* Where they do but add, it is so too, but for what the undecided have    *)
(* added by now, and for what of the decided is still to leave.            *)
Decided == Items(order)
RanBy(t)     == {txn[t].ran[i].step : i \in DOMAIN txn[t].ran}
Undecided(t) == IF t \in Decided THEN {} ELSE RanBy(t)
Coming(t)    == IF txn[t].state = "releasing" THEN Items(txn[t].kept) ELSE {}
Of(Steps(_)) == UNION {{<<t, txn[t].attempt, step>> : step \in Steps(t)} : t \in Transactions}

OnlyAdds(cell) == \A t \in Transactions : \A step \in Undecided(t) \cup Coming(t) :
  cell \in Cells(Scope(t, step)) => Group(program[t][step].kind) # ""

WorldIsSerial == \A cell \in World : OnlyAdds(cell) =>
  Less(world[cell], Of(Undecided)) = Less(SerialValue(Len(order), cell), Of(Coming))

(* What a read has seen of others was decided.                             *)
ReadsAreSettled == \A t \in Transactions : \A i \in DOMAIN txn[t].saw :
  LET seen == txn[t].saw[i].seen
  IN \A cell \in DOMAIN seen : \A who \in {seen[cell].by} \cup Added(seen[cell]) :
       \/ who[1] \in {0, t}
       \/ who[1] \in Decided /\ txn[who[1]].attempt = who[2]

(* No held effect leaves but of an attempt that has committed.             *)
Gated == \A effect \in left :
  /\ txn[effect[1]].state \in {"releasing", "committed"}
  /\ txn[effect[1]].attempt = effect[2]

(* And of one that has committed every held effect has left.               *)
NothingForgotten == \A t \in Transactions : txn[t].state = "committed" =>
  \A step \in DOMAIN program[t] :
    program[t][step].kind \in {"held", "last"} => <<t, txn[t].attempt, step>> \in left

(* What cannot be undone leaves when all has left that could still fail,   *)
(* but for what has to follow it, or one like it: what overlaps that, or   *)
(* what is kept back behind that and overlaps it.                          *)
RECURSIVE Follows(_, _, _)
Follows(t, step, first) == step > first /\
  \/ Overlap(Scope(t, step), Scope(t, first))
  \/ \E between \in (first + 1)..(step - 1) :
        /\ program[t][between].kind \notin {"read", "fail"}
        /\ Follows(t, between, first)
        /\ Overlap(Scope(t, step), Scope(t, between))

LeavesLast == \A effect \in left :
  LET t == effect[1]
  IN (effect[2] = txn[t].attempt /\ IsLast(t, effect[3])) =>
    \A step \in Items(txn[t].kept) :
      \/ IsLast(t, step)
      \/ \E first \in effect[3]..Len(program[t]) : IsLast(t, first) /\ Follows(t, step, first)

(* A claim is exclusive, but among effects of one group on one scope; and  *)
(* no read is made beside a claim.                                         *)
OfOneGroup(t, step, u, other) ==
  /\ Scope(t, step) = Scope(u, other)
  /\ Group(program[t][step].kind) # ""
  /\ Group(program[t][step].kind) = Group(program[u][other].kind)

OneClaim == \A t \in Transactions, u \in Transactions : t # u =>
  /\ \A step \in RanBy(t), other \in RanBy(u) :
       Overlap(Scope(t, step), Scope(u, other)) => OfOneGroup(t, step, u, other)
  /\ txn[t].call = "reading" => ~ OnAny(DOMAIN txn[u].claims, Scope(t, txn[t].step))

(* An undo finds its own write on top, or its own among its group's.       *)
UndoMeetsItsOwn == \A t \in Transactions : (txn[t].state = "aborting" /\ txn[t].call = "") =>
  LET step == Last(txn[t].ran).step
      own  == <<t, txn[t].attempt, step>>
  IN \A cell \in Cells(Scope(t, step)) :
       LET blocks == world[cell].added
       IN IF Group(program[t][step].kind) = "" THEN world[cell] = [by |-> own, added |-> <<>>]
          ELSE blocks # <<>> /\ Times(Last(blocks).many, own) > 0

(* Nobody waits for a younger one's claim, unless that is being given up.  *)
WaitsForOlder == \A t \in Transactions, u \in Transactions :
  (t # u /\ txn[t].call = "waits" /\ Unsettled(txn, u) /\ Claimed(txn, t, Scope(t, txn[t].step), u) # {})
  => Older(txn, u, t)

(* Effects of one group on one scope never wait for each other, and none   *)
(* is aborted for another: who waits has somebody in its way, or who may   *)
(* yet come into it, or who has come there in an attempt before this one.  *)
Come(t) == {step \in DOMAIN program[t] :
  /\ program[t][step].kind # "fail"
  /\ \/ step < txn[t].step
     \/ step = txn[t].step /\ (txn[t].call # "" \/ txn[t].state = "aborting")}

Came(t, scope) == txn[t].attempt > 1 /\ scope \in DOMAIN Mixed(t)

InTheWay(t, u) == \E step \in Come(t) :
  \/ OnAny(txn[u].declared, Scope(t, step))
  \/ \E other \in Come(u) :
       /\ Overlap(Scope(t, step), Scope(u, other))
       /\ ~ OfOneGroup(t, step, u, other) \/ Came(t, Scope(t, step)) \/ Came(u, Scope(u, other))

GroupsNeverWait == \A t \in Transactions, u \in Transactions :
  /\ t # u
  /\ \/ txn[t].call = "waits" /\ WaitsOn(txn, t, Mode(t), Scope(t, txn[t].step), u)
     \/ txn[t].state = "sealed" /\ WaitsBehind(t, u)
  => InTheWay(t, u)

(* No two transactions have one position.                                  *)
OnePosition == \A t \in Transactions, u \in Transactions :
  (t # u /\ txn[t].position = txn[u].position) => txn[t].position = 0

-----------------------------------------------------------------------------
(* And of every step:                                                      *)

FloorsNeverFall == [][\A scope \in Scopes : Floor(scope)' >= Floor(scope)]_vars

(* All at or below a floor is final, but for what commutes with all above. *)
Above(t) == {u \in Decided : txn[u].position > txn[t].position /\ Writing(u, Len(program[u])) # <<>>}

SettlesAboveFloor == [][\A t \in Transactions :
  (order' = Append(order, t) /\ Wrote(txn, t)) =>
    \A scope \in DOMAIN txn[t].holds :
      \/ Floor(scope) < txn[t].position
      \/ \A u \in Above(t), step \in DOMAIN program[t] : \A other \in DOMAIN program[u] :
           Scope(t, step) = scope /\ Overlap(scope, Scope(u, other)) => OfOneGroup(t, step, u, other)]_vars

(* What somebody has added stands until that is undone by itself, or until *)
(* something is written in its place.                                      *)
Undone(t) == Len(txn'[t].ran) < Len(txn[t].ran)

OthersStand == [][\A cell \in World : \A who \in Added(world[cell]) :
  who \in Added(world'[cell]) \/ world'[cell].by # world[cell].by \/ Undone(who[1])]_vars

(* Nobody gives way to one that commutes with all it has done.             *)
GroupsNeverWound == [][\A u \in Transactions :
  (txn'[u].reason = "wounded" /\ txn[u].reason # "wounded") => \E t \in Others(u) : InTheWay(t, u)']_vars

(* So it cannot starve.                                                    *)
RetryKeepsItsPlace == [][\A t \in Unfinished : txn'[t].attempt # txn[t].attempt =>
  txn'[t].position = txn[t].position /\ DOMAIN txn'[t].holds = DOMAIN txn[t].holds]_vars

EveryoneEnds == <>AllOver

-----------------------------------------------------------------------------
(***************************************************************************)
(* WHAT IS ALIKE. Epochs, versions and the clock only count up: what they  *)
(* are does not matter, only what comes before what. Two states with one   *)
(* picture behave alike.                                                   *)
(***************************************************************************)
Rank(number) == Cardinality({t \in Unfinished : txn[t].position <= number})

Count(steps, t, scope) == Cardinality({i \in DOMAIN steps : Scope(t, steps[i]) = scope})
RanSteps(t)            == [i \in DOMAIN txn[t].ran |-> txn[t].ran[i].step]
Pairs(function)        == {<<key, function[key]>> : key \in DOMAIN function}

ValuePicture(value) == <<
  value.by, [i \in DOMAIN value.added |-> <<value.added[i].group, value.added[i].many>>]>>
Values(cells) == {<<cell, ValuePicture(cells[cell])>> : cell \in DOMAIN cells}

HoldPicture(t, scope) == <<
  scope, scope \in txn[t].declared, IF scope \in DOMAIN txn[t].stands THEN txn[t].stands[scope] ELSE "none",
  Count(RanSteps(t), t, scope), Count(txn[t].kept, t, scope),
  txn[t].call = "waits" /\ Scope(t, txn[t].step) = scope,
  txn[t].call = "reading" /\ Scope(t, txn[t].step) = scope>>

Picture == <<
  [t \in Transactions |-> [k \in DOMAIN program[t] |-> <<program[t][k].kind, Scope(t, k)>>]],
  [t \in Transactions |-> <<
    txn[t].state, txn[t].reason, txn[t].attempt,
    IF t \in Unfinished THEN Rank(txn[t].position) ELSE 0,
    txn[t].step, txn[t].call,
    {HoldPicture(t, scope) : scope \in DOMAIN txn[t].holds},
    {<<scope, Outdated(t, scope)>> : scope \in DOMAIN txn[t].reads},
    txn[t].kept,
    [i \in DOMAIN txn[t].ran |-> <<txn[t].ran[i].step, Values(txn[t].ran[i].was)>>],
    [i \in DOMAIN txn[t].saw |-> <<txn[t].saw[i].step, Values(txn[t].saw[i].seen)>>]>>],
  {<<t, mine, u, claimed>> \in Unfinished \X Scopes \X Unfinished \X Scopes :
     /\ t # u /\ Overlap(mine, claimed)
     /\ mine \in DOMAIN txn[t].holds /\ claimed \in DOMAIN txn[u].claims
     /\ txn[t].holds[mine] < txn[u].claims[claimed]},
  {<<scope, Rank(Floor(scope))>> : scope \in Scopes},
  Values(world), left, order>>
=============================================================================
