"""How a program says who it is to a Kafka cluster: Java's properties, for Java's client and for librdkafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tidemill.common import Configuration, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.kafka.jaas import read_login
from tidemill.connectors.kafka.properties import hide_secrets
from tidemill.connectors.kafka.security import check_for_java, for_library, way_in
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSource,
    KafkaSourceBuilder,
)
from tidemill.errors import ConfigurationError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} username="tide" password="open sesame";',
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("root")


def source() -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics("clicks")
    return made.set_value_only_deserializer(SimpleStringSchema())


def sink() -> KafkaSinkBuilder:
    serializer = KafkaRecordSerializationSchema.builder().set_topic("words")
    serializer.set_value_serialization_schema(SimpleStringSchema())
    return KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(serializer.build())


# --------------------------------------------------------------------------------------------------------------- logins


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} username="tide" password="p";', {"username": "tide", "password": "p"}),
        (f"{PLAIN} username=tide password='p q' ;", {"username": "tide", "password": "p q"}),
        (
            f'{PLAIN}\n  // who\n  username="tide" /* what */\n  password="a\\"b\\\\c\\n\\101";',
            {"password": 'a"b\\c\nA'},
        ),
        (f'{PLAIN} password="a=b; //c";', {"password": "a=b; //c"}),
        (f"{SCRAM};", {}),
    ],
    ids=["quoted", "words", "escapes and comments", "signs in quotes", "no options"],
)
def test_a_login_is_read_as_java_does(text: str, options: dict[str, str]) -> None:
    login = read_login(text)
    assert login.module in ("PlainLoginModule", "ScramLoginModule")
    assert {name: login.options[name] for name in options} == options


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f'{PLAIN} username="tide" password="sesame"', ""),
        (f'{PLAIN} username="tide" password="ses"ame";', '";'),
        (f"{PLAIN} username=tide password=7sesame;", "7sesame;"),
        ("PlainLoginModule username='tide' password='sesame';", "username='tide' password='sesame';"),
        (f'{PLAIN} password="sesame"; {PLAIN} password="sesame";', f'{PLAIN} password="sesame";'),
        ("", ""),
    ],
    ids=["no semicolon", "a quote in quotes", "a number", "no flag", "two modules", "nothing"],
)
@pytest.mark.parametrize("client", ["source", "sink"])
def test_a_login_that_cannot_be_read_is_reported_without_its_contents(client: str, text: str, rest: str) -> None:
    made: Any = source() if client == "source" else sink()
    place = len(text) - len(rest) + 1
    with pytest.raises(ConfigurationError, match=f"cannot be read from character {place} of {len(text)} on") as caught:
        made.set_properties(LOGIN).set_property("sasl.jaas.config", text).build()
    assert "ame" not in str(caught.value).replace("username", "")


def test_a_user_name_and_a_password_are_the_same_to_both_clients() -> None:
    settings = for_library(LOGIN)
    assert settings == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "tide",
        "sasl.password": "open sesame",
    }
    sink().set_properties(LOGIN).build()
    assert source().set_properties(LOGIN).build().client_properties().items() >= LOGIN.items()


def test_the_librarys_own_names_have_precedence_on_a_sink() -> None:
    token = {**LOGIN, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "a.b.OAuthBearerLoginModule required;"}
    settings = for_library({**token, "sasl.oauthbearer.method": "oidc"})
    assert "sasl.username" not in settings
    assert for_library({**LOGIN, "sasl.username": "me", "sasl.password": "x"})["sasl.username"] == "me"
    trusted = for_library({"ssl.truststore.location": "/etc/trust.jks", "ssl.ca.location": "/etc/ca.pem"})
    assert trusted == {"ssl.ca.location": "/etc/ca.pem"}
    known = for_library({"ssl.keystore.location": "/etc/key.jks", "ssl.key.pem": "k", "ssl.certificate.pem": "c"})
    assert known == {"ssl.key.pem": "k", "ssl.certificate.pem": "c"}


def test_what_only_java_has_is_passed_over_by_a_sink_that_logs_in_by_the_librarys_own_names() -> None:
    """So that a source and a sink can share the rest, as the message about a way that only Java has says."""
    of_java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "sasl.login.callback.handler.class": "x.Y",
    }
    own = {"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    for together in ({**of_java, **own}, {**own, **of_java}):
        assert for_library(together) == {"security.protocol": "SASL_SSL", **own}
        assert way_in(together) == "SASL_SSL with OAUTHBEARER"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM is supported by Kafka's Java client only.*SCRAM-SHA-512"),
        ({"sasl.jaas.config": f'{SCRAM} tokenauth="true" username="t" password="p";'}, "without tokenauth"),
        ({"sasl.jaas.config": f'{SCRAM} username="tide";'}, "has no password"),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": 'a.b.Krb5LoginModule required keyTab="k";'},
            r"contains a Krb5LoginModule.*sasl\.kerberos\.keytab",
        ),
        ({"sasl.login.callback.handler.class": "x.Y"}, r"No such configuration property.*sasl\.login"),
    ],
    ids=["mechanism", "delegation token", "no password", "kerberos", "callback"],
)
def test_a_way_to_log_in_that_only_java_has_is_refused_by_a_sink(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        sink().set_properties({**LOGIN, **properties}).build()


def test_a_missing_mechanism_is_named_in_the_error() -> None:
    forgotten = {name: value for name, value in LOGIN.items() if name != "sasl.mechanism"}
    for made in (source(), sink()):
        with pytest.raises(ConfigurationError, match=r"ScramLoginModule, but the mechanism is GSSAPI.*sasl\.mechanism"):
            made.set_properties(forgotten).build()


def test_a_source_says_how_java_calls_what_it_was_given_by_another_name() -> None:
    for name, instead in {
        "sasl.username": r"sasl\.jaas\.config",
        "sasl.oauthbearer.method": r"sasl\.jaas\.config",
        "ssl.ca.location": r"ssl\.truststore\.location",
        "ssl.key.pem": r"ssl\.keystore\.key",
    }.items():
        with pytest.raises(ConfigurationError, match=f"{name} is a property of librdkafka.*{instead}"):
            source().set_property(name, "x").build()
    check_for_java({"ssl.truststore.location": "/etc/trust.jks", "sasl.kerberos.service.name": "kafka"})


# ------------------------------------------------------------------------------------------------------------------ TLS


def test_pem_stores_of_java_become_the_librarys_files_and_texts(authority: Authority, tmp_path: Path) -> None:
    client = authority.issue("client")
    trust, keys = tmp_path / "trust.pem", tmp_path / "keys.pem"
    trust.write_text(authority.certificate)
    keys.write_text(client.key("sesame") + client.certificates)
    types = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "pem"}
    files = {"ssl.truststore.location": str(trust), "ssl.keystore.location": str(keys), "ssl.key.password": "sesame"}
    assert for_library({**types, **files}) == {
        "security.protocol": "SSL",
        "ssl.key.password": "sesame",
        "ssl.ca.location": str(trust),
        "ssl.key.location": str(keys),
        "ssl.certificate.location": str(keys),
    }
    sink().set_properties({**types, **files}).build()

    in_one_line = {
        "ssl.truststore.certificates": authority.certificate.replace("\n", " "),
        "ssl.keystore.key": client.key(),
        "ssl.keystore.certificate.chain": client.certificates,
    }
    assert for_library({**types, **in_one_line}) == {
        "security.protocol": "SSL",
        "ssl.ca.pem": authority.certificate,
        "ssl.key.pem": client.key(),
        "ssl.certificate.pem": client.certificates,
    }
    shown = repr(sink().set_properties({**types, **in_one_line}).build())
    assert "'ssl.keystore.key': '******'" in shown
    assert "BEGIN" not in shown
    assert len(shown) < 500


def test_a_pkcs12_key_store_is_read_by_both(authority: Authority, tmp_path: Path) -> None:
    store = tmp_path / "client.p12"
    store.write_bytes(authority.issue("client").store("sesame"))
    properties = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": "sesame",
    }
    sink().set_properties(properties).build()
    with pytest.raises(ConfigurationError, match=r"client\.p12") as caught:
        sink().set_properties({**properties, "ssl.keystore.password": "not sesame"}).build()
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"ssl.truststore.location": "/t.jks"}, r"type is JKS \(the default\), but.*read PEM only.*keytool -list"),
        ({"ssl.truststore.location": "/t", "ssl.truststore.type": "PKCS12"}, r"PKCS12, but sinks.*ssl\.ca\.location"),
        ({"ssl.keystore.location": "/k.jks"}, "type is JKS.*PEM and PKCS12 only.*keytool -importkeystore"),
        ({"ssl.truststore.location": "/no.pem", "ssl.truststore.type": "PEM"}, r"is /no\.pem, .* does not exist here"),
        ({"ssl.keystore.location": "/no.p12", "ssl.keystore.type": "PKCS12"}, r"is /no\.p12, .* does not exist here"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "k"}, "must both be set: one is missing"),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "a", "ssl.truststore.certificates": "b"},
            "only one can be set",
        ),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "a", "ssl.keystore.key": "b"}, "only one can be set"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, r"ssl\.enabled\.protocols is 'TLSv1\.3', but sinks.* do not support"),
        ({"ssl.protocol": "TLSv1.1"}, r"ssl\.protocol is 'TLSv1\.1'"),
        ({"ssl.engine.factory.class": "x.Y"}, r"No such configuration property.*ssl\.engine\.factory\.class"),
    ],
)
def test_what_librdkafka_cannot_do_is_refused_with_what_to_do(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        sink().set_property("security.protocol", "SSL").set_properties(properties).build()


def test_what_both_do_by_themselves_is_no_setting() -> None:
    versions = {"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2, TLSv1.3", "ssl.truststore.type": "PEM"}
    assert for_library(versions) == {}
    unchecked = for_library({"ssl.endpoint.identification.algorithm": ""})
    assert unchecked == {"ssl.endpoint.identification.algorithm": "none"}


# -------------------------------------------------------------------------------------------------------------- secrets


def test_no_secret_is_in_a_plan_or_a_message() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    clicks = env.from_source(source().set_properties(LOGIN).build(), WatermarkStrategy.no_watermarks(), "clicks")
    clicks.sink_to(sink().set_properties(LOGIN).build())
    assert "sesame" not in env.explain() + env.get_execution_plan()

    token = {"sasl.jaas.config": "a.OAuthBearerLoginModule required clientId=tide clientSecret=sesame useKeyTab=true;"}
    assert hide_secrets("tide, sesame, true", token) == "tide, ******, true"
    broken = {"sasl.jaas.config": "password=sesame", "sasl.password": "sesame"}
    assert hide_secrets("no password=sesame here", broken) == "no ****** here"


def test_a_key_in_the_place_of_its_file_is_not_shown(authority: Authority) -> None:
    for key in (authority.issue("client").key(), "-----BEGIN PRIVATE KEY-----\nsesame\n-----END PRIVATE KEY-----"):
        mistaken = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": key}
        with pytest.raises(ConfigurationError, match=r"instead of the name of a file.*ssl\.keystore\.key") as caught:
            sink().set_properties(mistaken).build()
        shown = repr(source().set_properties(mistaken).build())
        assert "PRIVATE" not in f"{caught.value} {shown} {hide_secrets(f'no such file: {key}', mistaken)}"


def test_messages_say_by_which_way_one_did_not_get_in() -> None:
    assert way_in(LOGIN) == "SASL_SSL with SCRAM-SHA-512"
    assert way_in({"security.protocol": "sasl_plaintext"}) == "SASL_PLAINTEXT with GSSAPI"
    assert way_in({"security.protocol": "SSL"}) == "SSL"
    assert way_in({}) == ""
