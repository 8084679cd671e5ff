"""Taking secrets out of text."""

import pytest

from nanobee.secrets import MIN_SECRET_CHARS, SecretSet, environment_secrets, is_secret_name, literal_secrets


def known(*values: str) -> SecretSet:
    secrets = SecretSet()
    secrets.add(values)
    return secrets


def test_a_known_value_is_taken_out_wherever_it_stands() -> None:
    assert known("p4ss-word").redact("a p4ss-word, twicep4ss-word.") == "a [secret], twice[secret]."


def test_a_value_is_known_in_its_coded_forms_too() -> None:
    secrets = known("a/b:c d'\\n")
    for form in ("a/b:c d'\\n", "a%2Fb%3Ac%20d%27%5Cn", "a/b%3Ac%20d%27%5Cn", repr("a/b:c d'\\n")):
        assert "c" not in secrets.redact(form).replace("[secret]", "")


def test_the_longer_of_two_values_goes_first() -> None:
    assert known("secret-1", "secret-1-long").redact("secret-1-long secret-1") == "[secret] [secret]"


def test_each_line_of_a_key_file_is_a_secret() -> None:
    assert known("-----BEGIN-----\nMIIabcdef\n").redact("x MIIabcdef y") == "x [secret] y"


@pytest.mark.parametrize("value", ["", " ", "a", "a" * (MIN_SECRET_CHARS - 1)])
def test_a_value_that_is_too_short_garbles_nothing(value: str) -> None:
    assert known(value).redact("a banana is a fruit aaaaa") == "a banana is a fruit aaaaa"


def test_nothing_is_known_at_first() -> None:
    assert SecretSet().redact("hello") == "hello"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-proj-0123456789abcdef0123", "key [secret]"),
        ("https://api.telegram.org/bot123456789:AAabcdefghijklmnopqrstuvwxyz01234567/x", None),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer [secret]"),
        ("http://me:pass@proxy:3128", "http://[secret]@proxy:3128"),
        ("http://127.0.0.1:8080/a@b", "http://127.0.0.1:8080/a@b"),
        ("task-0123456789abcdefgh", "task-0123456789abcdefgh"),
        ("12:30 on 2026-01-01", "12:30 on 2026-01-01"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_unnamed(text: str, shown: str | None) -> None:
    assert SecretSet().redact(text) == (shown or "https://api.telegram.org/bot[secret]/x")


@pytest.mark.parametrize("name", ["token", "api_key", "OPENAI_API_KEY", "app_secret", "PASSWORD", "encrypt_key"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "context_tokens", "keyboard", "monkey", "kind", "tokenizer"])
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_the_environment_s_secrets_are_told_by_their_names() -> None:
    assert environment_secrets({"A_TOKEN": "x", "PATH": "/bin", "DB_PASSWORD": "y"}) == ["x", "y"]


def test_literal_secrets_of_a_configuration() -> None:
    values = {"a": {"token": "one", "kind": "x"}, "b": [{"api_key": "two"}], "c": {"token": "${T}", "secret": ""}}
    assert literal_secrets(values) == ["one", "two"]
