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
(*   "fail"   touches nothing: the transaction fails there.                *)
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
  Kinds,         \* of the six above
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
(* VALUES name who wrote them: <<transaction, attempt, step>>.             *)
(***************************************************************************)
Unwritten == <<0, 0, 0>>

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
  declared |-> {},       \* those of them that were declared and not touched yet
  claims   |-> Nothing,  \* scope -> when it was granted
  ran      |-> <<>>,     \* effects that ran at once: [step, was], was: the values they replaced
  kept     |-> <<>>,     \* steps of the effects that are kept back
  reads    |-> Nothing,  \* scope -> the version that was last when it was read
  saw      |-> <<>>]     \* what its reads returned: [step, seen]

-----------------------------------------------------------------------------
(* What follows takes the transactions as an argument, T: one step of the  *)
(* protocol may move several of them, one after the other.                 *)

Highest(numbers) == CHOOSE n \in numbers \cup {0} : \A m \in numbers : m <= n

Fresh(T) == 1 + Highest({T[t].position : t \in Transactions})  \* epochs are never reused
Now(T)   == 1 + Highest(UNION {{T[t].holds[s] : s \in DOMAIN T[t].holds}
                          \cup {T[t].claims[s] : s \in DOMAIN T[t].claims} : t \in Transactions})

Put(function, key, value) ==
  [k \in DOMAIN function \cup {key} |-> IF k = key THEN value ELSE function[k]]
Only(function, keys) == [k \in DOMAIN function \cap keys |-> function[k]]
Last(sequence)       == sequence[Len(sequence)]
Front(sequence)      == SubSeq(sequence, 1, Len(sequence) - 1)
Items(sequence)      == {sequence[i] : i \in DOMAIN sequence}

Scope(t, step)  == program[t][step].scope
KeptOn(T, t)    == {Scope(t, step) : step \in Items(T[t].kept)}
Wrote(T, t)     == T[t].ran # <<>> \/ T[t].kept # <<>>
Older(T, u, t)  == T[u].position < T[t].position
Unsettled(T, t) == T[t].state \in {"open", "sealed"}
Unfinished      == {t \in Transactions : txn[t].state \in {"open", "sealed", "releasing", "aborting"}}
Others(t)       == Transactions \ {t}

OnAny(scopes, scope) == \E s \in scopes : Overlap(s, scope)

Holds(T, t, scope) == OnAny(DOMAIN T[t].holds, scope)
Asks(T, t, scope)  == T[t].call \in {"waits", "reading"} /\ Overlap(Scope(t, T[t].step), scope)
Reads(T, t, scope) == T[t].call = "reading" /\ Asks(T, t, scope)

(* Busy: it acts on the scope, or may yet undo or release something there. *)
Busy(T, t, scope) ==
  \/ OnAny(DOMAIN T[t].claims, scope)
  \/ T[t].state = "releasing" /\ OnAny(KeptOn(T, t), scope)

(* Active: more than a hold. A younger claim has to wait for it.           *)
Active(T, t, scope) ==
  \/ Busy(T, t, scope)
  \/ Asks(T, t, scope)
  \/ Rule("claims wait for held effects") /\ OnAny(KeptOn(T, t), scope)

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
(* position, and takes over the footprint as declared holds.               *)
(***************************************************************************)
Over(T, t) ==
  [T EXCEPT ![t] =
    IF Retried(T, t)
    THEN [New EXCEPT
           !.state = "open", !.attempt = T[t].attempt + 1, !.position = T[t].position,
           !.holds = T[t].holds, !.declared = DOMAIN T[t].holds]
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
(*    it is restamped above it. They are met oldest first.                 *)
(***************************************************************************)
Covered(T, t, scope) == \E s \in DOMAIN T[t].holds : Cells(scope) \subseteq Cells(s)

AboveFloor(T, t, scope) ==
  IF ~ Covered(T, t, scope) /\ Floor(scope) >= T[t].position THEN Restamped(T, t) ELSE T

Holding(T, t, scope) ==
  [T EXCEPT ![t].holds = IF scope \in DOMAIN @ THEN @ ELSE Put(@, scope, Now(T))]

Rivals(T, t, scope) == {u \in Others(t) :
  Older(T, t, u) /\ Unsettled(T, u) /\ OnAny(DOMAIN T[u].claims, scope)}

(* Of several claims of one rival the one counts whose scope it held first. *)
Met(T, u, scope) == CHOOSE claimed \in DOMAIN T[u].claims :
  /\ Overlap(claimed, scope)
  /\ \A s \in DOMAIN T[u].claims : Overlap(s, scope) => T[u].holds[claimed] <= T[u].holds[s]

WasThereFirst(T, t, u, claimed) == \E s \in DOMAIN T[t].holds :
  Overlap(s, claimed) /\ T[t].holds[s] < T[u].claims[claimed]

Wounds(T, t, u, scope) == DOMAIN T[t].claims # {} \/ WasThereFirst(T, t, u, Met(T, u, scope))

MeetClaims(T, t, scope) ==
  LET rivals  == Rivals(T, t, scope)
      stops   == {u \in rivals : ~ Wounds(T, t, u, scope)}
      wounded == {u \in rivals \ stops : \A v \in stops : Older(T, u, v)}
      after   == [u \in Transactions |-> IF u \in wounded THEN Aborting(T, u, "wounded")[u] ELSE T[u]]
  IN IF rivals = {} \/ ~ Rule("wound") THEN T ELSE IF stops = {} THEN after ELSE Restamped(after, t)

Touched(T, t, scope) ==
  MeetClaims(IF T[t].call = "waits" THEN T ELSE Holding(AboveFloor(T, t, scope), t, scope), t, scope)

(***************************************************************************)
(* WAITING. Every wait goes from a larger position to a smaller one, but   *)
(* for short ones: for an undo, a release or a read, which wait for nobody *)
(* that waits back.                                                        *)
(***************************************************************************)
HasToWait(T, t, mode, scope) == \E u \in Others(t) :
  CASE mode = "held"  -> FALSE
    [] mode = "read"  -> Rule("settled reads") /\ Busy(T, u, scope)
    [] OTHER          -> /\ Rule("exclusion")
                         /\ \/ Busy(T, u, scope)
                            \/ Reads(T, u, scope)
                            \/ Older(T, u, t) /\ Active(T, u, scope)
                            \/ Older(T, u, t) /\ mode = "final" /\ Holds(T, u, scope)

(* An effect that overlaps the transaction's own held one is held too.     *)
Mode(t) ==
  LET step == program[t][txn[t].step]
      own  == step.kind \in {"eager", "final"} /\ OnAny(KeptOn(txn, t), step.scope)
  IN IF own \/ step.kind = "last" THEN "held" ELSE step.kind

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
                   ![t].ran      = Append(@, [step |-> T[t].step, was |-> [c \in Cells(scope) |-> world[c]]])]

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

(* A request, and again after it has waited: only when it changes anything. *)
Ask(t) ==
  /\ IsAt(t, {"read", "eager", "final", "held", "last"})
  /\ txn[t].call \in {"", "waits"}
  /\ LET scope   == Scope(t, txn[t].step)
         mode    == Mode(t)
         touched == Touched(txn, t, scope)
     IN txn' = IF mode \in {"eager", "final"} /\ Stale(t) THEN Aborted(txn, t, "stale")
               ELSE IF HasToWait(touched, t, mode, scope) THEN [touched EXCEPT ![t].call = "waits"]
               ELSE Granted(touched, t, mode, scope)
  /\ txn' # txn
  /\ UNCHANGED <<program, floor, version, world, left, order>>

(* A read sees the world, and what its own transaction keeps back.         *)
Seen(t, cell) ==
  LET own == {step \in Items(txn[t].kept) : cell \in Cells(Scope(t, step))}
  IN IF own # {} THEN <<t, txn[t].attempt, Highest(own)>> ELSE world[cell]

ReadReturns(t) ==
  /\ txn[t].call = "reading"
  /\ LET seen == [cell \in Cells(Scope(t, txn[t].step)) |-> Seen(t, cell)]
     IN txn' = [txn EXCEPT ![t].call = "", ![t].step = @ + 1,
                           ![t].saw = Append(@, [step |-> txn[t].step, seen |-> seen])]
  /\ UNCHANGED <<program, floor, version, world, left, order>>

Written(t, step) ==
  [cell \in World |-> IF cell \in Cells(Scope(t, step)) THEN <<t, txn[t].attempt, step>> ELSE world[cell]]

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
(* every scope it touched, and no undo is running where its held effects   *)
(* will land: until then it waits. (2) Every read is current: else it      *)
(* aborts, and is retried on fresh state. One that wrote nothing skips (1) *)
(* and raises no floor.                                                    *)
(***************************************************************************)
Waits(t) ==
  /\ Rule("frontier")
  /\ Wrote(txn, t)
  /\ \E u \in Others(t), scope \in DOMAIN txn[t].holds :
       \/ Older(txn, u, t) /\ Holds(txn, u, scope)
       \/ txn[u].state = "aborting" /\ scope \in KeptOn(txn, t) /\ Busy(txn, u, scope)

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

(* Undone in reverse order, while the scope is still the undoer's own.     *)
Undo(t) ==
  /\ txn[t].state = "aborting"
  /\ txn[t].call = ""
  /\ LET effect  == Last(txn[t].ran)
         rest    == Front(txn[t].ran)
         claimed == {Scope(t, rest[i].step) : i \in DOMAIN rest}
         undone  == [txn EXCEPT ![t].ran = rest, ![t].claims = Only(@, claimed)]
     IN /\ world' = [cell \in World |-> IF cell \in DOMAIN effect.was THEN effect.was[cell] ELSE world[cell]]
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
Writes(t, cell, steps) == {step \in steps : program[t][step].kind # "read" /\ cell \in Cells(Scope(t, step))}

SerialValue(n, cell) ==
  LET writers == {i \in 1..n : Writes(order[i], cell, DOMAIN program[order[i]]) # {}}
      t       == order[Highest(writers)]
  IN IF writers = {} THEN Unwritten
     ELSE <<t, txn[t].attempt, Highest(Writes(t, cell, DOMAIN program[t]))>>

SerialRead(n, step, cell) ==
  LET t   == order[n]
      own == Writes(t, cell, 1..(step - 1))
  IN IF own = {} THEN SerialValue(n - 1, cell) ELSE <<t, txn[t].attempt, Highest(own)>>

(* Every committed read saw what it would have seen in the commit order.   *)
Serializable == \A n \in DOMAIN order : \A i \in DOMAIN txn[order[n]].saw :
  LET read == txn[order[n]].saw[i]
  IN \A cell \in DOMAIN read.seen : read.seen[cell] = SerialRead(n, read.step, cell)

(* Where nobody acts, the world is as if the committed had run one by one. *)
WorldIsSerial == \A cell \in World :
  (\A t \in Transactions : ~ Busy(txn, t, cell)) => world[cell] = SerialValue(Len(order), cell)

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

(* A claim is exclusive.                                                   *)
OneClaim == \A t \in Transactions, u \in Transactions : t # u =>
  \A scope \in DOMAIN txn[t].claims : ~ OnAny(DOMAIN txn[u].claims, scope)

(* An undo finds its own write on top, and nobody else's.                  *)
UndoMeetsItsOwn == \A t \in Transactions : (txn[t].state = "aborting" /\ txn[t].call = "") =>
  LET effect == Last(txn[t].ran)
  IN \A cell \in DOMAIN effect.was : world[cell] = <<t, txn[t].attempt, effect.step>>

(* Nobody waits for a younger one's claim, unless that is being given up.  *)
WaitsForOlder == \A t \in Transactions, u \in Transactions :
  (t # u /\ txn[t].call = "waits" /\ Unsettled(txn, u) /\ OnAny(DOMAIN txn[u].claims, Scope(t, txn[t].step)))
  => Older(txn, u, t)

(* No two transactions have one position.                                  *)
OnePosition == \A t \in Transactions, u \in Transactions :
  (t # u /\ txn[t].position = txn[u].position) => txn[t].position = 0

-----------------------------------------------------------------------------
(* And of every step:                                                      *)

FloorsNeverFall == [][\A scope \in Scopes : Floor(scope)' >= Floor(scope)]_vars

(* All at or below a floor is final.                                       *)
SettlesAboveFloor == [][\A t \in Transactions :
  (order' = Append(order, t) /\ Wrote(txn, t)) =>
    \A scope \in DOMAIN txn[t].holds : Floor(scope) < txn[t].position]_vars

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

HoldPicture(t, scope) == <<
  scope, scope \in txn[t].declared, Count(RanSteps(t), t, scope), Count(txn[t].kept, t, scope),
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
    [i \in DOMAIN txn[t].ran |-> <<txn[t].ran[i].step, Pairs(txn[t].ran[i].was)>>],
    [i \in DOMAIN txn[t].saw |-> <<txn[t].saw[i].step, Pairs(txn[t].saw[i].seen)>>]>>],
  {<<t, mine, u, claimed>> \in Unfinished \X Scopes \X Unfinished \X Scopes :
     /\ t # u /\ Overlap(mine, claimed)
     /\ mine \in DOMAIN txn[t].holds /\ claimed \in DOMAIN txn[u].claims
     /\ txn[t].holds[mine] < txn[u].claims[claimed]},
  {<<scope, Rank(Floor(scope))>> : scope \in Scopes},
  Pairs(world), left, order>>
=============================================================================
