"""What has the name of a secret is masked wherever texts and values are shown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.common import Configuration
from tidemill.config import PipelineOptions
from tidemill.config.redaction import redacted, redacted_value
from tidemill.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", "password=******"),
        ("{'sasl.password': 'hunter2', 'acks': 'all'}", "{'sasl.password': ******, 'acks': 'all'}"),
        ('"api_key" : "hunter2"', '"api_key" : ******'),
        ("jdbc:postgresql://me:hunter2@db:5432/x", "jdbc:postgresql://me:******@db:5432/x"),
        ("Authorization: Bearer hunter2hunter2", "Authorization: Bearer ******"),
        ("s3.secret-key: hunter2", "s3.secret-key: ******"),
        ("ssl.passphrase=hunter2", "ssl.passphrase=******"),
        ("fs.azure.account.key.shop: hunter2", "fs.azure.account.key.shop: ******"),
        ("metrics.http-headers=X-Me:hunter2", "metrics.http-headers=******"),
        ("run --api-token hunter2 --verbose", "run --api-token ****** --verbose"),
        ("{'password': b'hunter2'}", "{'password': ******}"),
        (r"password='it\'s hunter2', acks=all", "password=******, acks=all"),
        ("sasl.password => hunter2, acks -> all", "sasl.password => ******, acks -> all"),
        (r'"{\"password\": \"hunter2\", \"acks\": 1}"', r'"{\"password\": ******, \"acks\": 1}"'),
        ("record {'user': 'ann', 'password': 'hun", "record {'user': 'ann', 'password': ******"),
        ('{"credentials": {"user": "ann", "pin": "hunter2"}, "acks": 1}', '{"credentials": ******, "acks": 1}'),
        ("{'passwords': ['hunter2', ('hunter3',)], 'acks': 1}", "{'passwords': ******, 'acks': 1}"),
        ("{'token': {'of': {'a': '}', 'b': 'hunter2'}}}", "{'token': ******}"),
        (r'"{\"secrets\": [\"hunter2\"], \"acks\": 1}"', r'"{\"secrets\": ******, \"acks\": 1}"'),
        ("password=Secret('hunter2', 1), acks=all", "password=******, acks=all"),
        ("secrets: [hunter2, {a: hunter3", "secrets: ******"),
        ("tokenize -> count", "tokenize -> count"),
        ("key=user-17 and token bucket of 5", "key=user-17 and token bucket of 5"),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_long_words_cost_as_much_as_others() -> None:
    begun = time.thread_time()
    for text in ("x" * 100_000, "token." * 50_000, "-" * 50_000 + "="):
        assert redacted(text) == text
    assert redacted("token=[" * 20_000) == "token=******"
    assert time.thread_time() - begun < 5, "the square of their length would take minutes"


@given(st.sampled_from(["password", "db.passwd", "aws_secret_access_key", "oauthToken", "my.credential"]), st.text())
def test_no_value_of_a_secrets_name_is_shown(name: str, value: str) -> None:
    assert redacted_value("options", {"a": [{name: value}], "b": 1}) == {"a": [{name: "******"}], "b": 1}


def test_entries_are_masked_in_any_form() -> None:
    given = {"db": [("password", "hunter2"), ("user", "ann")], "sasl": {"credentials": {"user": "ann", "pin": 1}}}
    assert redacted_value("options", given) == {
        "db": [["password", "******"], ["user", "ann"]],
        "sasl": {"credentials": "******"},
    }


def test_secrets_inside_parameters_of_a_job_are_not_shown() -> None:
    configuration = Configuration()
    parameters = {"db": '{"user": "ann", "credentials": {"pin": "hunter2"}}', "options": "retries=3 password=hunter2"}
    configuration.set(PipelineOptions.GLOBAL_JOB_PARAMETERS, parameters)
    configuration.set_string("user.sink", "{'token': ['hunter2']}")
    for shown in (str(configuration), repr(configuration)):
        assert "hunter2" not in shown
        assert "retries=3" in shown
        assert "ann" in shown


def test_nor_are_they_in_the_error_about_a_value() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Configuration().set_string("parallelism.default", "password=hunter2")
    assert "hunter2" not in str(raised.value)
