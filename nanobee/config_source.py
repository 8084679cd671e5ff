"""Config source: settings read from the environment, a file and the defaults, in that order.

A fault anywhere refuses the start: nothing is guessed, and no file is written.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, SecretStr, ValidationError

from nanobee.config import PluginSettings, Settings
from nanobee.config_document import Document, Value
from nanobee.config_environment import fill_references, lay_environment
from nanobee.config_file import parse_value, read_document
from nanobee.config_origin import KeyPath, Mark, Origin
from nanobee.config_problems import explain, fields_at, value_at, value_path
from nanobee.errors import ConfigError, ConfigProblem
from nanobee.phrases import Language, Phrase
from nanobee.secrets import environment_secrets, literal_secrets, remember_secrets
from nanobee.workspace import template_root

ModelT = TypeVar("ModelT", bound=BaseModel)

CONFIG_VARIABLE = "NANOBEE_CONFIG"
DEFAULT_CONFIG = "~/.nanobee/config.yaml"
FOLDERS = ("workspace", "state")

EMPTY_VARIABLE = Phrase("is set, but empty; give it a value or unset it", "已设置但为空；请赋值或取消设置")
EMPTY_PATH = Phrase("is empty; write a folder", "为空；请写一个文件夹")
NO_HOME = Phrase('"~" has no meaning here: this user has no home folder', '此处 "~" 没有意义：该用户没有主目录')
IS_TEMPLATE = Phrase(
    "is the template folder that comes with nanobee; choose another folder, `nanobee init` fills it",
    "是 nanobee 自带的模板文件夹；请选择别的文件夹，`nanobee init` 会填充它",
)
INSIDE_WORKSPACE = Phrase(
    "stands inside the workspace, which tools may write; choose a folder outside of {workspace}",
    "位于工具可以写入的工作区内；请选择 {workspace} 之外的文件夹",
)
CONFIG_INSIDE = Phrase(
    "holds the configuration file, which tools could then write; choose another folder",
    "包含配置文件，工具就能改写它；请选择别的文件夹",
)
EXPOSED = Phrase(
    "{file} holds secrets and other users can read it: chmod 600 {file}",
    "{file} 含有密钥，而其他用户可以读取它：chmod 600 {file}",
)


def config_path(path: Path | None, environ: Mapping[str, str]) -> Path:
    """The config file: the named one, else `$NANOBEE_CONFIG`, else the default.

    Raises:
        ConfigError: the variable is empty, or there is no home folder.
    """
    named = str(path) if path is not None else environ.get(CONFIG_VARIABLE)
    origin = Origin({(): Mark(CONFIG_VARIABLE)}, (), _language({}, environ))
    if named == "":
        raise ConfigError([origin.problem((), EMPTY_VARIABLE.say(origin.language))])
    return _expand(named or DEFAULT_CONFIG, Path(), environ, origin, ())


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read the whole configuration. A missing default file means defaults; a missing named one is refused.

    The values of secrets are remembered, so that no log line shows them.

    Raises:
        ConfigError: with every problem that was found.
    """
    file = config_path(path, environ)
    is_named = path is not None or CONFIG_VARIABLE in environ
    if is_named or file.exists() or file.is_symlink():
        document = read_document(file)
    else:
        document = Document(str(file), marks={(): Mark(str(file))})
    if document.faults and not document.values:
        origin = Origin({}, (), _language({}, environ))
        raise ConfigError([fault.problem(origin) for fault in document.faults])
    is_exposed = bool(literal_secrets(document.values)) and _is_readable_by_others(file)
    keys = Settings.model_fields
    lay_environment(document, environ, keys, [key for key in keys if _is_section(key)])
    language = _language(document.values, environ)
    warnings = (EXPOSED.say(language, file=file),) if is_exposed else ()
    origin = Origin(document.marks, (), language, warnings)
    remember_secrets([*environment_secrets(environ), *literal_secrets(document.values)])
    remember_secrets(fill_references(document, environ))
    problems = [fault.problem(origin) for fault in document.faults]
    settings = _settings(document, file, environ, origin, problems)
    settings.place(origin)
    return settings


def _settings(
    document: Document, file: Path, environ: Mapping[str, str], origin: Origin, problems: list[ConfigProblem]
) -> Settings:
    values = document.values
    try:
        for key in FOLDERS:
            _place_folder(key, values, file, environ, origin)
        settings = _validate(Settings, values, origin)
        _check_folders(settings, file, origin)
    except ConfigError as error:
        known = {problem.path for problem in problems}
        problems += [problem for problem in error.problems if problem.path not in known]
    else:
        if not problems:
            return settings
    raise ConfigError(problems)


def validate_section(model_type: type[ModelT], section: PluginSettings, path: str) -> ModelT:
    """A plugin's section as that plugin's own settings model; `path` is `channels.NAME` or `providers.NAME`.

    Secrets in it are remembered, so that no log line shows them.

    Raises:
        ConfigError: with every problem in the section, and the file and line of each.
    """
    origin = section.origin
    if not origin.marks:
        origin = Origin({(): Mark("settings")}, tuple(path.split(".")), origin.language)
    values: dict[str, Value] = json.loads(json.dumps(section.mapping(), default=str))
    model = _validate(model_type, values, origin)
    remember_secrets(_secrets_of(model.model_dump()))
    return model


def _validate(model_type: type[ModelT], values: dict[str, Value], origin: Origin) -> ModelT:
    """Validate as JSON: the strict mode that takes lists for tuples and text for paths, and nothing else."""
    try:
        return model_type.model_validate_json(json.dumps(values))
    except ValidationError as error:
        first = error
    if _read_loose(first, values, origin):
        try:
            return model_type.model_validate_json(json.dumps(values))
        except ValidationError as error:
            first = error
    raise ConfigError(explain(first, model_type, values, origin))


def _read_loose(error: ValidationError, values: dict[str, Value], origin: Origin) -> bool:
    """Read text from the environment as YAML where its field refused text; whether anything changed."""
    is_changed = False
    for details in error.errors(include_url=False, include_input=False, include_context=False):
        path = value_path(details, values)
        text = value_at(path, values)
        if path and isinstance(text, str) and origin.is_loose(path) and details["type"].endswith("_type"):
            value = parse_value(text)
            holder = value_at(path[:-1], values)
            if not isinstance(value, str) and isinstance(holder, dict):
                holder[str(path[-1])] = value
                is_changed = True
    return is_changed


def _secrets_of(value: object) -> list[str]:
    if isinstance(value, SecretStr):
        return [value.get_secret_value()]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [secret for each in inner for secret in _secrets_of(each)]


def _is_readable_by_others(file: Path) -> bool:
    return os.name == "posix" and bool(file.stat().st_mode & 0o077)


def _is_section(key: str) -> bool:
    return fields_at(Settings, (key,)) != []


def _language(values: Mapping[str, Value], environ: Mapping[str, str]) -> Language:
    """The language of problems, as far as it is known before the settings are."""
    word = values.get("language", environ.get("NANOBEE_LANGUAGE"))
    return "zh" if word == "zh" else "en"


def _place_folder(key: str, values: dict[str, Value], file: Path, environ: Mapping[str, str], origin: Origin) -> None:
    """Make a folder's path absolute: from the file's own folder, or from the current one for a variable."""
    text = values.get(key, str(Settings.model_fields[key].default))
    if text == "":
        raise ConfigError([origin.problem((key,), EMPTY_PATH.say(origin.language))])
    if isinstance(text, str):
        base = Path() if origin.mark((key,)).line is None else file.parent
        values[key] = str(_expand(text, base, environ, origin, (key,)))


def _expand(text: str, base: Path, environ: Mapping[str, str], origin: Origin, path: KeyPath) -> Path:
    if text == "~" or text.startswith("~/"):
        if home := environ.get("HOME"):
            text = home + text[1:]
    try:
        return (base / Path(text).expanduser()).absolute()
    except RuntimeError:
        raise ConfigError([origin.problem(path, NO_HOME.say(origin.language))]) from None


def _check_folders(settings: Settings, file: Path, origin: Origin) -> None:
    workspace = _real(settings.workspace)
    problems = []
    if workspace == _real(template_root()):
        problems.append(origin.problem(("workspace",), IS_TEMPLATE.say(origin.language)))
    if _real(file).is_relative_to(workspace):
        problems.append(origin.problem(("workspace",), CONFIG_INSIDE.say(origin.language)))
    if _real(settings.state).is_relative_to(workspace):
        reason = INSIDE_WORKSPACE.say(origin.language, workspace=settings.workspace)
        problems.append(origin.problem(("state",), reason))
    if problems:
        raise ConfigError(problems)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises on a loop of links
