"""What goes in and out of the page's API. The HTML pages are made from these values and from nothing else."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from queryveil.log.formats import FORMATS
from queryveil.release.decision import Choice


def _list_formats(schema: dict[str, Any]) -> None:
    schema["enum"] = list(FORMATS)


def _check_format(name: str) -> str:
    if name not in FORMATS:
        raise PydanticCustomError("unknown_format", f"Input should be one of {', '.join(FORMATS)}")
    return name


Identity = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", description="a random identity made by the server")]
Value = bool | int | float | str | None
Column = Literal["user", "query", "time", "rank", "url", "session"]
FormatName = Annotated[str, Field(json_schema_extra=_list_formats), AfterValidator(_check_format)]
OurName = Annotated[str, Field(max_length=200)]


class Request(BaseModel):
    """Something sent to the server: unknown fields and values of a wrong type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Login(Request):
    """The one-time token of the printed address, or the password where the server has one."""

    secret: str = Field(max_length=1000)


class Reading(Request):
    """How to read an uploaded log."""

    format: FormatName | None = None
    columns: dict[Column, OurName] = Field(default_factory=dict, description="our name: the file's own name")
    encoding: Literal["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "gb18030"] | None = None
    user_field: Literal["client_id", "user_id"] = Field("client_id", description="the field of UBI that names the user")
    on_error: Literal["skip", "fail"] = "skip"


class Purpose(Request):
    """Who receives the release, what for, and how much risk is acceptable; what is kept out of it from the start."""

    recipient: Literal["public", "partner", "team"]
    task: str = Field(max_length=40)
    max_risk: float = Field(gt=0, le=1)
    blocked: list[Annotated[str, Field(max_length=200, pattern=r"^[^\r\n#]+$")]] = Field(
        default_factory=list, max_length=100, description="category paths whose queries are left out"
    )
    leave_out: list[Literal["time", "rank", "url", "session"]] = Field(default_factory=list, max_length=4)


class Setting(Request):
    """A mechanism with its public parameters."""

    mechanism: str = Field(max_length=60)
    parameters: dict[Annotated[str, Field(max_length=60)], Value] = Field(default_factory=dict, max_length=40)


class ReleaseRequest(Setting):
    """A release to make."""

    format: FormatName | None = Field(default=None, description="of the release; as the log's if not given")
    reason: str = Field(
        default="",
        max_length=2000,
        description="why a setting above the accepted risk is taken; for the holder",
    )


class DecisionRequest(Request):
    """The decision of the person who may decide; published with the release."""

    decision: Choice = "approve"
    name: str = Field(min_length=1, max_length=200)
    reason: str = Field(default="", max_length=2000)
    conditions: str = Field(default="", max_length=2000)


class Budget(Request):
    """What each person may lose over all releases."""

    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)


class TryRequest(Request):
    """A query to try an obfuscation on. Nothing of it is kept or sent anywhere."""

    query: str = Field(min_length=1, max_length=300)
    mechanism: Literal["cmp", "mhl", "vkr-cmp", "vkr-mhl", "tem", "santext", "custext", "wbb"] = "cmp"
    epsilon: float = Field(default=30.0, ge=1, le=200)
    n: int = Field(default=5, ge=1, le=10)


class Failure(BaseModel):
    """Why something was refused. Never holds anything of the data."""

    error: str


class SessionView(BaseModel):
    """Who you are to the server: send `csrf` as X-CSRF-Token with everything that changes something."""

    csrf: str


class Guess(BaseModel):
    """What an uploaded file seems to be."""

    format: str | None
    names: list[str]
    columns: dict[str, str]
    problem: str | None


class JobView(BaseModel):
    """A piece of work and how far it is."""

    id: Identity
    log: Identity
    kind: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    step: str
    share: float
    error: str | None
    result: dict[str, Any] | None
    request: dict[str, Any]
    points: list[dict[str, Any]]
    created: float
    ended: float | None

    @property
    def active(self) -> bool:
        """Whether it has still to end."""
        return self.state in ("waiting", "running")


class LogView(BaseModel):
    """An uploaded log and what is known of it. `profile` holds exact figures: for its holder only."""

    id: Identity
    title: str
    created: float
    expires: float
    bytes: int
    sample: bool
    guess: Guess
    reading: dict[str, Any] | None
    profile: dict[str, Any] | None
    purpose: dict[str, Any] | None


class ParameterView(BaseModel):
    """One public parameter of a mechanism."""

    name: str
    label: str = Field(description="the parameter's name for people")
    kind: Literal["whole", "real", "choice", "truth", "text"]
    choices: list[str]
    meanings: dict[str, str] = Field(description="what choices mean, where their names do not tell")
    default: Value
    required: bool
    optional: bool
    help: str


class MechanismView(BaseModel):
    """A mechanism and what can be set."""

    name: str
    title: str
    summary: str
    parameters: list[ParameterView]


class Plan(BaseModel):
    """What a mechanism would promise, before any data is read, and what it costs."""

    mechanism: str
    parameters: dict[str, Value]
    headline: str
    in_short: list[str] = Field(description="the promise in five short lines")
    statement: str
    model: str
    assumptions: list[str]
    not_protected: list[str]
    evidence: str
    pays: Literal["people", "dataset", "nothing"]
    epsilon: float
    delta: float
    affordable: bool | None = Field(description="None without a ledger, or where nothing is charged")


class Point(BaseModel):
    """One setting that was tried on the log: what an attacker gets and what is kept."""

    label: str
    title: str = Field(description="the setting's name for people")
    kind: Literal["mechanism", "rule"]
    mechanism: str
    parameters: dict[str, Any]
    records: int
    risk: float | None = Field(description="what the most successful attack gets, at the bad end of its interval")
    attack: str | None
    utility: dict[str, float]
    frontier: list[str] = Field(description="tasks for which no other setting has both less risk and more use")
    kept: float | None = Field(description="share of the records whose very text is published")
    promise: str
    problem: str
    seconds: float
    kept_for_task: float | None = None
    best: bool = Field(default=False, description="on the frontier of the purpose's task")
    advised: bool = False


class ToCome(BaseModel):
    """A mechanism, or today's rules together, some of whose settings are still to be tried."""

    title: str
    done: int
    of: int
    seconds: float | None = Field(description="about how long the rest will take; None before anything was tried")


class Comparison(BaseModel):
    """All settings tried so far, for one purpose. Exact figures: for the holder only."""

    job: JobView
    task: str
    asked_task: str
    max_risk: float
    points: list[Point]
    reasons: list[str] = Field(description="of the advice, which may rest on few settings while others are tried")
    people_drawn: int | None
    settings: int = Field(description="how many there are to try; 0 before that is known")
    to_come: list[ToCome]


class TriedWord(BaseModel):
    """A word of the query and how many words an observer finds about as likely to be behind what was sent."""

    word: str
    known: bool
    could_be: int


class TriedQuery(BaseModel):
    """What would be sent instead of a query, and what the query means to QueryVeil."""

    sent: list[str]
    alerts: list[str] = Field(description="what in the query points at a person, whatever is done to it")
    words: list[TriedWord]
    concepts: list[str]
    categories: list[str]
    promise: str
    how: str


Fate = Literal["together", "apart", "others", "gone"]


class Search(BaseModel):
    """A search of one made-up person, and what became of its text in a release."""

    day: int = Field(description="0 is Monday")
    hour: int
    text: str
    fate: Fate


class Week(BaseModel):
    """One made-up person's week, and what a recipient still sees of it at one setting of a mechanism."""

    mechanism: str
    title: str
    settings: list[str] = Field(description="without protection, then the settings from weak to strong")
    setting: int
    log_records: int
    log_people: int
    searches: list[Search]
    instead: list[str] = Field(description="other texts in the release behind which the person is")
    records: int = Field(description="of the release, behind which the person is")
    names: int = Field(description="under which these stand")
    of_others: int = Field(description="records of others under the same names")
    times: str
    made_up: int | None = Field(description="records of a release with nobody behind them")


class ReleaseView(BaseModel):
    """A finished release, ready to download."""

    id: Identity
    title: str
    created: float
    log: str | None
    mechanism: str
    parameters: dict[str, Any]
    chosen_by: Literal["holder", "advise", "compare"] = "holder"
    guarantee: dict[str, Any]
    columns: dict[str, str]
    records: int
    users: int
    file: str
    ledger: str | None
    recipient: str | None
    has_report: bool
    has_internal_report: bool
    decision: str = ""


class Verdict(BaseModel):
    """What a check found."""

    sound: bool
    problems: list[str]


class LedgerEntry(BaseModel):
    """One line of the ledger."""

    number: int
    id: str
    created: str
    mechanism: str
    scope: str
    epsilon: float
    delta: float
    people: int
    kind: str
    rho: float | None
    written: bool | None = Field(description="false where no release came of it, or none yet; null where unknown")


class LedgerView(BaseModel):
    """Budgets and what was spent; `exists` is false before one was made."""

    exists: bool
    id: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    left_epsilon: float | None = None
    left_delta: float | None = None
    spent: float | None = Field(default=None, description="ε of all releases together at the ledger's δ")
    more: list[str] = Field(default_factory=list, description="what one more release of each sort would cost")
    entries: list[LedgerEntry] = Field(default_factory=list)


class TopicView(BaseModel):
    """A topic that can be kept out, and the categories it stands for."""

    name: str
    title: str
    paths: list[str]
    sensitive: bool
