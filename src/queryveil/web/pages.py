"""The pages: HTML from the same service as the API, with forms that work without any script.

A page is a template and values of `models`; it has no way to the data but the service. A form is posted to the page's
own address, becomes the request of the API's route of the same meaning, and answers with a redirect, so that loading a
page again never does a thing twice. htmx only exchanges the card of a running job while it runs, the outcome of a
tried query and the picture of a week; without script the card's page loads itself anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from queryveil import mechanisms
from queryveil.errors import QueryVeilError
from queryveil.log.formats import FORMATS
from queryveil.log.query_log import COLUMNS
from queryveil.log.reading import USER_FIELDS
from queryveil.log.source import ENCODINGS
from queryveil.privacy.guarantee import in_short
from queryveil.release.wording import in_words
from queryveil.report import charts
from queryveil.report.log_facts import facts_in_words
from queryveil.web import models, parameters
from queryveil.web.formatting import TASKS, as_page_field
from queryveil.web.forms import UploadForm, only, parse_number, parse_whole_number, small_form, validate
from queryveil.web.rendering import page as _page
from queryveil.web.rendering import to as _to
from queryveil.web.service import SAMPLE_RECORDS, SAMPLE_USERS, Service
from queryveil.web.try_query import try_query
from queryveil.web.week import DAYS, FATES, picture, stops, week

FACTS = (
    *("records", "users", "texts", "records_per_user_median", "records_per_user_max", "words_per_query"),
    *("records_with_click", "days", "repeat_rate", "records_with_email", "records_with_long_number"),
)
"""What the page says of a log beside the risk at a glance."""


def router(service: Service) -> APIRouter:
    """The routes, over one service."""
    page = APIRouter(default_response_class=HTMLResponse)

    @page.get("/")
    def home(request: Request) -> Response:
        return _page(
            request,
            "home.html",
            logs=service.logs(),
            releases=service.releases(),
            settings=service.settings,
            sample={"records": SAMPLE_RECORDS, "users": SAMPLE_USERS},
        )

    @page.post("/logs")
    async def upload(request: Request) -> Response:
        form = await UploadForm.open(request)
        log = await service.receive(form.filename, form.chunks())
        return _to(f"/logs/{log.id}")

    @page.post("/sample")
    def sample() -> Response:
        return _to(f"/logs/{service.add_sample().id}")

    @page.get("/logs/{log}")
    def log_page(request: Request, log: str) -> Response:
        found = service.log(log)
        return _page(
            request,
            "log.html",
            log=found,
            job=service.latest_job(log, "profile"),
            formats=FORMATS,
            encodings=ENCODINGS,
            user_fields=USER_FIELDS,
            columns=list(COLUMNS),
            facts=facts_in_words(found.profile["statistics"], FACTS) if found.profile else {},
        )

    @page.post("/logs/{log}/reading")
    async def confirm(request: Request, log: str) -> Response:
        fields = await small_form(request)
        columns = {name: only(fields, f"column-{name}") for name in COLUMNS if only(fields, f"column-{name}")}
        chosen = FORMATS.get(only(fields, "format"), FORMATS["csv"])
        reading = validate(
            models.Reading,
            format=only(fields, "format") or None,
            columns={name: theirs for name, theirs in columns.items() if chosen.extras or name in chosen.mapped},
            encoding=only(fields, "encoding") or None,
            user_field=only(fields, "user_field") or "client_id",
            on_error="fail" if "fail" in fields else "skip",
        )
        service.confirm(log, reading)
        return _to(f"/logs/{log}")

    @page.post("/logs/{log}/delete")
    def delete(log: str) -> Response:
        service.delete_log(log)
        return _to("/")

    @page.get("/logs/{log}/purpose")
    def purpose_page(request: Request, log: str) -> Response:
        found = service.log(log)
        if found.profile is None:
            return _to(f"/logs/{log}")
        return _page(request, "purpose.html", log=found, tasks=TASKS, topics=service.topics())

    @page.post("/logs/{log}/purpose")
    async def set_purpose(request: Request, log: str) -> Response:
        fields = await small_form(request)
        purpose = validate(
            models.Purpose,
            recipient=only(fields, "recipient"),
            task=only(fields, "task"),
            max_risk=parse_number(only(fields, "max_risk")),
            blocked=[
                path for topic in service.topics() if topic.name in fields.get("topic", []) for path in topic.paths
            ],
            leave_out=[name for name in ("time", "rank", "url", "session") if only(fields, f"keep-{name}") == "no"],
        )
        service.set_purpose(log, purpose)
        service.compare(log)
        return _to(f"/logs/{log}/compare")

    @page.get("/logs/{log}/compare")
    def compare_page(request: Request, log: str) -> Response:
        found = service.log(log)
        if found.purpose is None:
            return _to(f"/logs/{log}/purpose")
        return _page(request, "compare.html", log=found, **_compared(service, log), mechanisms=service.mechanisms())

    @page.post("/logs/{log}/compare")
    def compare(log: str) -> Response:
        service.compare(log)
        return _to(f"/logs/{log}/compare")

    @page.get("/logs/{log}/release")
    def release_page(request: Request, log: str, mechanism: str | None = None) -> Response:
        chosen = mechanism or mechanisms.names()[0]
        return _release_page(service, request, log, chosen, dict(request.query_params))

    @page.post("/logs/{log}/preview")
    async def preview(request: Request, log: str) -> Response:
        name, values, _ = await _setting(request)
        service.preview(log, validate(models.Setting, mechanism=name, parameters=values))
        return _to(f"/logs/{log}/release?{_query(name, values)}")

    @page.post("/logs/{log}/release")
    async def make_release(request: Request, log: str) -> Response:
        name, values, fields = await _setting(request)
        chosen = only(fields, "release_format") or None
        reason = only(fields, "reason")
        wanted = validate(models.ReleaseRequest, mechanism=name, parameters=values, format=chosen, reason=reason)
        service.release_log(log, wanted)
        return _to(f"/logs/{log}/release?{_query(name, values)}")

    @page.get("/jobs/{job}")
    def job_card(request: Request, job: str) -> Response:
        found = service.job(job)
        if not found.active and "hx-request" in request.headers:
            return Response(status_code=204, headers={"hx-refresh": "true"})
        if not found.active:
            return _to(_home_of(found))
        if found.kind == "compare":
            return _page(request, "comparison.html", log=service.log(found.log), **_compared(service, found.log))
        return _page(request, "job.html", job=found)

    @page.post("/jobs/{job}/cancel")
    def cancel(job: str) -> Response:
        return _to(_home_of(service.cancel(job)))

    @page.post("/jobs/{job}/resume")
    def resume(job: str) -> Response:
        return _to(_home_of(service.resume(job)))

    @page.get("/releases/{release}")
    def download_page(request: Request, release: str) -> Response:
        found = service.release(release)
        verdict = service.verify_release(release)
        job, sheet = service.report_job(release), service.sheet(release) if verdict.sound else None
        return _page(
            request, "download.html", release=found, verdict=verdict, job=job, sheet=sheet,
            title=parameters.describe(found.mechanism).title, in_short=in_short(found.guarantee),
        )  # fmt: skip

    @page.post("/releases/{release}/decision")
    async def decide(request: Request, release: str) -> Response:
        fields = await small_form(request)
        names = ("decision", "name", "reason", "conditions")
        wanted = validate(models.DecisionRequest, **{name: only(fields, name) for name in names})
        await run_in_threadpool(service.decide, release, wanted)
        return _to(f"/releases/{release}#decision")

    @page.post("/releases/{release}/delete")
    def delete_release(release: str) -> Response:
        service.delete_release(release)
        return _to("/")

    @page.get("/try")
    def try_page(request: Request) -> Response:
        example = models.TryRequest(query="throat cancer treatment")
        return _page(request, "try.html", wanted=example, tried=None, problem=None)

    @page.post("/try")
    async def try_form(request: Request) -> Response:
        fields = await small_form(request)
        tried, problem = None, None
        wanted = validate(
            models.TryRequest,
            query=only(fields, "query"),
            mechanism=only(fields, "mechanism"),
            epsilon=parse_number(only(fields, "epsilon")),
            n=parse_whole_number(only(fields, "n")),
        )
        try:
            tried = await run_in_threadpool(try_query, wanted)
        except QueryVeilError as error:
            problem = error.describe(as_page_field)
        template = "tried.html" if "hx-request" in request.headers else "try.html"
        return _page(request, template, wanted=wanted, tried=tried, problem=problem)

    @page.get("/week")
    def week_page(request: Request, mechanism: str | None = None, setting: int = 0) -> Response:
        known = [one for one in service.mechanisms() if stops(one.name)]
        shown = week(mechanism or known[0].name, setting)
        template = "week_shown.html" if "hx-request" in request.headers else "week.html"
        return _page(request, template, week=shown, picture=picture(shown), fates=FATES, days=DAYS, mechanisms=known)

    @page.get("/ledger")
    def ledger_page(request: Request) -> Response:
        return _page(request, "ledger.html", ledger=service.ledger(), verdict=None, releases=service.releases())

    @page.post("/ledger")
    async def make_ledger(request: Request) -> Response:
        fields = await small_form(request)
        epsilon, delta = (parse_number(only(fields, name) or "0") for name in ("epsilon", "delta"))
        service.make_ledger(validate(models.Budget, epsilon=epsilon, delta=delta))
        return _to("/ledger")

    @page.post("/ledger/verify")
    def verify_ledger(request: Request) -> Response:
        verdict = service.verify_ledger()
        return _page(request, "ledger.html", ledger=service.ledger(), verdict=verdict, releases=service.releases())

    return page


async def _setting(request: Request) -> tuple[str, dict[str, models.Value], dict[str, list[str]]]:
    fields = await small_form(request)
    name = only(fields, "mechanism")
    return name, parameters.parse_form(name, {key: found[0] for key, found in fields.items()}), fields


def _query(name: str, values: dict[str, models.Value]) -> str:
    texts = {key: ("yes" if value else "no") if isinstance(value, bool) else value for key, value in values.items()}
    return urlencode({"mechanism": name, **texts})


def _home_of(job: models.JobView) -> str:
    """The page that shows a job."""
    if job.kind == "profile":
        return f"/logs/{job.log}"
    if job.kind == "compare":
        return f"/logs/{job.log}/compare"
    if job.kind == "report":
        return f"/releases/{job.request['release']}"
    return f"/logs/{job.log}/release?{_query(job.request['mechanism'], job.request['parameters'])}"


def _release_page(service: Service, request: Request, log: str, mechanism: str, given: dict[str, str]) -> Response:
    found = service.log(log)
    if found.profile is None:
        return _to(f"/logs/{log}")
    plan, problem, values = None, None, {}
    view = parameters.describe(mechanism)
    try:
        values = parameters.parse_form(mechanism, given) if len(given) > 1 else {}
        if len(given) > 1 or not any(parameter.required for parameter in view.parameters):
            plan = service.plan(validate(models.Setting, mechanism=mechanism, parameters=values))
    except QueryVeilError as error:
        problem = error.describe(as_page_field)
    above = plan is not None and service.above_limit(log, parameters.make(mechanism, values))
    preview, making = service.latest_job(log, "preview"), service.latest_job(log, "release")
    if making and making.state == "done" and making.result and _same(making, mechanism, values):
        made = making.result["release"]
        if request.query_params.get("again") is None and any(one.id == made for one in service.releases()):
            return _to(f"/releases/{made}")
    fitting = preview if preview and (_same(preview, mechanism, values) or preview.active) else None
    return _page(
        request,
        "release.html",
        log=found,
        mechanisms=service.mechanisms(),
        chosen=view,
        values=values,
        setting=in_words(mechanisms.load(mechanism), values),
        given=given,
        plan=plan,
        problem=problem,
        above=above,
        preview=fitting,
        making=making if making and (making.active or _same(making, mechanism, values)) else None,
        ledger=service.ledger(),
        formats=FORMATS,
    )


def _same(job: models.JobView, mechanism: str, values: dict[str, models.Value]) -> bool:
    return bool(job.request["mechanism"] == mechanism and job.request["parameters"] == values)


def _compared(service: Service, log: str) -> dict[str, Any]:
    """What the page shows of a comparison, also while it runs."""
    found = service.comparison(log)
    if found is None:
        return {"found": None, "chart": "", "links": {}}
    links = {
        point.label: _query(point.mechanism, point.parameters) for point in found.points if point.kind == "mechanism"
    }
    return {"found": found, "chart": frontier(found.points, found.max_risk, found.task), "links": links}


def frontier(points: Sequence[models.Point], max_risk: float, task: str) -> Markup:
    """Settings by risk and use, numbered as in the table below the chart; those of which nothing is left are not in it.

    Marks that fall together keep their place; their numbers step aside and a thin line leads back.
    """
    shown = [
        charts.Point(
            point.title,
            point.risk,
            point.kept_for_task,
            on_frontier=point.best,
            label=str(number),
            shape="dot",
            style="chosen" if point.advised else "best" if point.best else point.kind,
        )
        for number, point in enumerate(points, 1)
        if point.risk is not None and point.kept_for_task is not None and point.records
    ]
    return charts.frontier_plot(
        shown, risk="what the best attack gets", utility=f"kept for {task}", acceptable=max_risk
    )
