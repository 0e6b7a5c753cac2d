"""Settings that are not in Kafka's table: the `ottla.*` names, those of its AclAuthorizer, and one before Kafka 0.9."""

from __future__ import annotations

from storage.setting import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    STRING,
    OneOf,
    OneOfAnyCase,
    RangeOr,
    Setting,
    table,
)

# fmt: off
OTTLA_SETTINGS: dict[str, Setting] = table((
    Setting("allow.everyone.if.no.acl.found", BOOLEAN, "false", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="For Kafka's AclAuthorizer: whether everybody may do everything with a resource that has no ACL."),
    Setting("ottla.authorizer", STRING, "", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="An authorizer of your own, as an import path module:Class; empty for none. See docs/security.md."),
    Setting("ottla.console.authentication", LIST, "",
            OneOf("scram", "password-file", "oauthbearer", "token-file", "certificate"),
            MEDIUM, READ_ONLY, acts=True,
            doc="How users of the console log in: scram (SCRAM users, basic authentication), password-file, oauthbearer"
                " (signed tokens, ottla.console.sasl.oauthbearer.*), token-file, certificate. Empty: nobody can log in."
                " See docs/security.md."),
    Setting("ottla.console.hosts", LIST, "", None,
            LOW, READ_ONLY, acts=True,
            doc="Names of the console in Host headers; addresses are always accepted. Empty: on loopback addresses"
                " those of this machine, on others every name."),
    Setting("ottla.console.listener", STRING, "127.0.0.1:8080", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="Address of health, metrics and the console as host:port; empty for none. If it is not set and the"
                " default is in use, the system chooses the port. With https:// before it, the console speaks TLS, with"
                " the settings ottla.console.ssl.* (those of a listener), or ssl.*."),
    Setting("ottla.console.mode", STRING, None, OneOf("full", "read-only", "off"),
            MEDIUM, READ_ONLY, acts=True,
            doc="full: users may change what they have the right to change. read-only: nobody changes anything. off:"
                " health and metrics only. Not set: full on a loopback address or with ottla.console.authentication,"
                " otherwise read-only. See docs/security.md."),
    Setting("ottla.console.open", LIST, None, OneOf("metrics", "read"),
            MEDIUM, READ_ONLY, acts=True,
            doc="What of the console needs no login, and is not a matter of the authorizer: metrics, or read, which is"
                " metrics and all that can be read; empty for health only. Not set: read on a loopback address without"
                " ottla.console.authentication, otherwise health only."),
    Setting("ottla.console.password.file", STRING, "", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="For password-file: a file with lines of `ottla users hash`. It is read again when it has changed."),
    Setting("ottla.console.schema.registry.basic.auth.user.info", PASSWORD, None, None,
            MEDIUM, READ_ONLY, acts=True,
            doc="user:password for the schema registry of the console."),
    Setting("ottla.console.schema.registry.url", LIST, "", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="URLs of a schema registry with Confluent's REST API, tried in order: the console decodes keys and"
                " values that name a schema. Empty: none."),
    Setting("ottla.console.token.file", STRING, "", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="For token-file: a file with lines user:$sha256$<digits>, the SHA-256 of a token in hexadecimal digits."
                " It is read again when it has changed."),
    Setting("ottla.inter.broker.listener.names", LIST, "", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="Listeners that are treated as those between brokers while inter.broker.listener.name is changed, one"
                " broker after the other: without an authorizer, requests that only brokers send are answered there,"
                " too. See docs/security.md."),
    Setting("ottla.jmx.port", INT, "-1", RangeOr(0, 65535, -1),
            LOW, READ_ONLY, acts=True,
            doc="jmx_port in this broker's registration in ZooKeeper; -1 for none. If it is not set, `ottla broker`"
                " takes the environment variable JMX_PORT. Ottla serves no JMX; other tools read this number."),
    Setting("ottla.log.format", STRING, "text", OneOf("text", "json"),
            LOW, READ_ONLY, acts=True,
            doc="Form of the log lines of `ottla broker`: text, or one JSON object a line."),
    Setting("ottla.log.level", STRING, "INFO", OneOfAnyCase("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"),
            LOW, READ_ONLY, acts=True,
            doc="Level of the root logger of `ottla broker` at its start; `--log-level` sets it. `ottla configs alter"
                " --broker-logger` changes levels while the broker runs."),
    Setting("ottla.produce.validation", STRING, "headers", OneOf("headers", "full"),
            MEDIUM, READ_ONLY, acts=True,
            doc="How far batches are checked: header and checksum, or (full) every record, as Kafka does."),
    Setting("ottla.zookeeper.legacy07.chroot", STRING, "", None,
            LOW, READ_ONLY, acts=True,
            doc="Path below that of zookeeper.connect where a view of the cluster in the layout of Kafka 0.7 is kept;"
                " empty for none."),
    Setting("ottla.zookeeper.sasl.client.username", STRING, "zookeeper", None,
            LOW, READ_ONLY, acts=True,
            doc="With Kerberos, the service of ZooKeeper: the first part of its principals (Java's"
                " zookeeper.sasl.client.username)."),
    Setting("ottla.zookeeper.sasl.clientconfig", STRING, "Client", None,
            LOW, READ_ONLY, acts=True,
            doc="Section of the JAAS file with the login to ZooKeeper (Java's zookeeper.sasl.clientconfig)."),
    Setting("ottla.zookeeper.sasl.jaas.config", PASSWORD, None, None,
            MEDIUM, READ_ONLY, acts=True,
            doc="Login to ZooKeeper. DIGEST-MD5: org.apache.zookeeper.server.auth.DigestLoginModule required"
                ' username="…" password="…"; Kerberos: com.sun.security.auth.module.Krb5LoginModule required'
                ' useKeyTab=true keyTab="…" principal="…";'),
    Setting("ottla.zookeeper.sasl.jaas.file", STRING, None, None,
            MEDIUM, READ_ONLY, acts=True,
            doc="JAAS file with that login in its section Client. Without both settings, `ottla broker` takes the file"
                " of -Djava.security.auth.login.config in the environment variable KAFKA_OPTS, if it has the section."),
    Setting("replica.lag.max.messages", LONG, "-1", RangeOr(1, None, -1, "[1,...] or -1"),
            MEDIUM, READ_ONLY, acts=True,
            doc="Records by which a follower may be behind before it leaves the in-sync replicas and no record waits"
                " for it; -1 for any number."),
    Setting("super.users", STRING, "", None,
            MEDIUM, READ_ONLY, acts=True,
            doc="For Kafka's AclAuthorizer: principals that may do everything, as User:admin;User:broker."),
))
# fmt: on
