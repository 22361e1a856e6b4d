BEGIN TRANSACTION;
CREATE TABLE settlemark_effect (
	namespace VARCHAR(255) NOT NULL, 
	"key" VARCHAR(1024) NOT NULL, 
	name VARCHAR(512) NOT NULL, 
	attempt INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	tool VARCHAR(512) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	scopes TEXT NOT NULL, 
	held BOOLEAN NOT NULL, 
	call_id TEXT, 
	arguments TEXT NOT NULL, 
	fingerprint VARCHAR(32) NOT NULL, 
	rationale TEXT, 
	handlers TEXT NOT NULL, 
	version VARCHAR(64) NOT NULL, 
	intended_at_seconds FLOAT NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	result TEXT, 
	error TEXT, 
	tag VARCHAR(16), 
	note TEXT, 
	settled_at_seconds FLOAT, 
	PRIMARY KEY (namespace, "key"), 
	FOREIGN KEY(namespace, name, attempt) REFERENCES settlemark_transaction (namespace, name, attempt)
);
INSERT INTO "settlemark_effect" VALUES('default','trip/1#1/0','trip/1',1,0,'book','reversible','["room:/a"]',0,NULL,'{"room":"a"}','19fce604de5662da46ae9fd375c27623',NULL,'{"undo":"__main__.<lambda>"}','1',1.79517094205800104142e+09,'confirmed','{"confirmation":"R-a"}',NULL,NULL,NULL,1.79517094206049227715e+09);
INSERT INTO "settlemark_effect" VALUES('default','trip/1#1/1','trip/1',1,1,'send','irreversible','["mail:/ada"]',1,NULL,'{"to":"ada"}','1d2b11c60fa0363c0d803e42335ea9b6',NULL,'{}','1',1.79517094206114101407e+09,'confirmed','"sent to ada"',NULL,NULL,NULL,1.79517094207641434667e+09);
INSERT INTO "settlemark_effect" VALUES('default','trip/2#1/0','trip/2',1,0,'book_for_good','reversible','["room:/b"]',0,NULL,'{"room":"b"}','f2972e1b4deaf7cbe31ea72a5402bb25',NULL,'{"undo":"__main__.never"}','1',1.79517094208092021934e+09,'confirmed','"booked"',NULL,'unresolved','its undo failed 3 times: LookupError: no such room',1.79517094221417641635e+09);
INSERT INTO "settlemark_effect" VALUES('default','trip/3#1/0','trip/3',1,0,'book_in_vain','reversible','["room:/c"]',0,NULL,'{"room":"c"}','fd985f04422c951ca7adcf4effc1f17c',NULL,'{"undo":"__main__.<lambda>"}','1',1.79517094222107100485e+09,'failed',NULL,'Boom: no rooms',NULL,NULL,1.79517094222472143173e+09);
INSERT INTO "settlemark_effect" VALUES('default','trip/4#1/0','trip/4',1,0,'book','reversible','["room:/d"]',0,NULL,'{"more":{"$ref":"sha256:0"},"room":"d"}','49777ac8d33cfd918233af62f14cb75f',NULL,'{"undo":"__main__.<lambda>"}','1',1.79517094223261332516e+09,'confirmed','{"confirmation":"R-d"}',NULL,NULL,NULL,1.79517094223600149152e+09);
INSERT INTO "settlemark_effect" VALUES('default','trip/4#1/1','trip/4',1,1,'book','reversible','["room:/e"]',0,NULL,'{"$ref":"sha256:0","room":"e"}','10df1174beed73b69196526720125b06',NULL,'{"undo":"__main__.<lambda>"}','1',1.795170942236115694e+09,'confirmed','{"confirmation":"R-e"}',NULL,NULL,NULL,1.79517094224069762228e+09);
INSERT INTO "settlemark_effect" VALUES('acme','acme:trip/1#1/0','trip/1',1,0,'book','reversible','["room:/z"]',0,NULL,'{"room":"z"}','47bac008b6654ea73888650e8a830f7e',NULL,'{"undo":"__main__.<lambda>"}','1',1.79517094227415585517e+09,'confirmed','{"confirmation":"R-z"}',NULL,NULL,NULL,1.79517094227572917937e+09);
CREATE TABLE settlemark_epochs (
	namespace VARCHAR(255) NOT NULL, 
	next BIGINT NOT NULL, 
	PRIMARY KEY (namespace)
);
INSERT INTO "settlemark_epochs" VALUES('default',1048577);
INSERT INTO "settlemark_epochs" VALUES('acme',1048577);
CREATE TABLE settlemark_fence (
	namespace VARCHAR(255) NOT NULL, 
	run VARCHAR(512) NOT NULL, 
	at_seconds FLOAT NOT NULL, 
	PRIMARY KEY (namespace, run)
);
INSERT INTO "settlemark_fence" VALUES('default','job',1.79517094224476671214e+09);
CREATE TABLE settlemark_meta (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "settlemark_meta" VALUES('schema','1');
CREATE TABLE settlemark_transaction (
	namespace VARCHAR(255) NOT NULL, 
	name VARCHAR(512) NOT NULL, 
	attempt INTEGER NOT NULL, 
	run VARCHAR(512) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	epoch BIGINT NOT NULL, 
	ordinal VARCHAR(512) NOT NULL, 
	owner VARCHAR(64) NOT NULL, 
	fence INTEGER NOT NULL, 
	reason TEXT, 
	opened_at_seconds FLOAT NOT NULL, 
	settled_at_seconds FLOAT, 
	PRIMARY KEY (namespace, name, attempt)
);
INSERT INTO "settlemark_transaction" VALUES('default','trip/1',1,'trip','committed',1,'','host:11247:d95f3368',0,NULL,1.79517094205800104142e+09,1.79517094207641434667e+09);
INSERT INTO "settlemark_transaction" VALUES('default','trip/2',1,'trip','aborted',2,'','host:11247:d95f3368',0,'failed: Boom: ',1.79517094208092021934e+09,1.79517094221671342849e+09);
INSERT INTO "settlemark_transaction" VALUES('default','trip/3',1,'trip','committed',3,'','host:11247:d95f3368',0,NULL,1.79517094222107100485e+09,1.79517094222868704798e+09);
INSERT INTO "settlemark_transaction" VALUES('default','trip/4',1,'trip','committed',4,'','host:11247:d95f3368',0,NULL,1.79517094223261332516e+09,1.7951709422446908951e+09);
INSERT INTO "settlemark_transaction" VALUES('acme','trip/1',1,'trip','committed',1,'','host:11247:c45616fc',0,NULL,1.79517094227415585517e+09,1.79517094227715206145e+09);
CREATE TABLE settlemark_worker (
	namespace VARCHAR(255) NOT NULL, 
	id VARCHAR(64) NOT NULL, 
	fence INTEGER NOT NULL, 
	lease_until_seconds FLOAT, 
	dead BOOLEAN NOT NULL, 
	PRIMARY KEY (namespace, id)
);
CREATE INDEX settlemark_transaction_state ON settlemark_transaction (namespace, state);
CREATE INDEX settlemark_transaction_run ON settlemark_transaction (namespace, run);
CREATE INDEX settlemark_effect_transaction ON settlemark_effect (namespace, name, attempt);
COMMIT;
