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
INSERT INTO "settlemark_effect" VALUES('default','open#1/0','open',1,0,'book','reversible','["room:/open"]',0,NULL,'{"room":"open"}','d038562de94b24bb7e7c681f9ea4a395',NULL,'{"undo":"__main__.<lambda>"}','1',1.79517094283915495866e+09,'confirmed','{"confirmation":"R-open"}',NULL,NULL,NULL,1.79517094284092831608e+09);
INSERT INTO "settlemark_effect" VALUES('default','open#1/1','open',1,1,'send','irreversible','["mail:/open"]',1,NULL,'{"to":"open"}','30e81f4e4204cd586e3a6024e923d48d',NULL,'{}','1',1.79517094284112620357e+09,'queued',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "settlemark_effect" VALUES('default','held#1/0','held',1,0,'send','irreversible','["mail:/held"]',1,NULL,'{"to":"held"}','112b85e611ce2ae541aeae7b52feb90c',NULL,'{}','1',1.79517094310978865623e+09,'queued',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "settlemark_effect" VALUES('default','releasing#1/0','releasing',1,0,'book','reversible','["room:/releasing"]',0,NULL,'{"room":"releasing"}','91fe0d671f4e3af45a0a4e09b99b96d4',NULL,'{"undo":"__main__.<lambda>"}','1',1.79517094344609642029e+09,'confirmed','{"confirmation":"R-releasing"}',NULL,NULL,NULL,1.79517094346302151681e+09);
INSERT INTO "settlemark_effect" VALUES('default','releasing#1/1','releasing',1,1,'send_and_die','irreversible','["mail:/releasing"]',1,NULL,'{"to":"releasing"}','fe722b27aedbdc541b57b57a41f98e89',NULL,'{}','1',1.79517094346329355233e+09,'queued',NULL,NULL,NULL,NULL,NULL);
CREATE TABLE settlemark_epochs (
	namespace VARCHAR(255) NOT NULL, 
	next BIGINT NOT NULL, 
	PRIMARY KEY (namespace)
);
INSERT INTO "settlemark_epochs" VALUES('default',3145729);
CREATE TABLE settlemark_fence (
	namespace VARCHAR(255) NOT NULL, 
	run VARCHAR(512) NOT NULL, 
	at_seconds FLOAT NOT NULL, 
	PRIMARY KEY (namespace, run)
);
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
INSERT INTO "settlemark_transaction" VALUES('default','open',1,'open','open',1,'','host:11270:9b30f56c',0,NULL,1.79517094283915495866e+09,NULL);
INSERT INTO "settlemark_transaction" VALUES('default','held',1,'held','open',1048577,'','host:11279:3724570e',0,NULL,1.79517094310978865623e+09,NULL);
INSERT INTO "settlemark_transaction" VALUES('default','releasing',1,'releasing','releasing',2097153,'','host:11281:f9257a41',0,NULL,1.79517094344609642029e+09,NULL);
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
