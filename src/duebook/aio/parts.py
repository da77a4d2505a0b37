"""The parts of the client for async programs, each method a coroutine; derived from `client/`."""

from __future__ import annotations

from duebook.aio.threads import AsyncPart, threaded

# derived: begin (make derive)
from duebook.client.access import (
    AuditClient,
    DoctorClient,
    NamespacesClient,
    NodesClient,
    QueuesClient,
    TemplatesClient,
    TokensClient,
    ZonesClient,
)
from duebook.client.alerts import AlertsClient
from duebook.client.calendars import CalendarsClient, FeedsClient, WindowsClient
from duebook.client.catchup import CatchupClient
from duebook.client.events import EventsClient
from duebook.client.flows import FlowsClient
from duebook.client.runs import RunsClient
from duebook.client.schedules import SchedulesClient
from duebook.client.shadow import ShadowClient

# derived: end

# derived: begin (make derive)


class AsyncSchedules(AsyncPart):
    """As `book.schedules`, awaited."""

    list = threaded(SchedulesClient.list)
    get = threaded(SchedulesClient.get)
    render = threaded(SchedulesClient.render)
    preview_update = threaded(SchedulesClient.preview_update)  # type: ignore[arg-type]
    preview = threaded(SchedulesClient.preview)
    explain = threaded(SchedulesClient.explain)
    ledger = threaded(SchedulesClient.ledger)
    statistics = threaded(SchedulesClient.statistics)
    revisions = threaded(SchedulesClient.revisions)
    exceptions = threaded(SchedulesClient.exceptions)
    create = threaded(SchedulesClient.create)
    replace = threaded(SchedulesClient.replace)  # type: ignore[arg-type]
    update = threaded(SchedulesClient.update)  # type: ignore[arg-type]
    delete = threaded(SchedulesClient.delete)
    pause = threaded(SchedulesClient.pause)
    resume = threaded(SchedulesClient.resume)
    trigger = threaded(SchedulesClient.trigger)
    reschedule = threaded(SchedulesClient.reschedule)
    skip_next = threaded(SchedulesClient.skip_next)
    restore = threaded(SchedulesClient.restore)
    backfill = threaded(SchedulesClient.backfill)
    undo_backfill = threaded(SchedulesClient.undo_backfill)
    backfill_progress = threaded(SchedulesClient.backfill_progress)
    create_many = threaded(SchedulesClient.create_many)
    act = threaded(SchedulesClient.act)
    declare = threaded(SchedulesClient.declare)
    declare_one = threaded(SchedulesClient.declare_one)  # type: ignore[arg-type]
    preview_create = threaded(SchedulesClient.preview_create)  # type: ignore[arg-type]
    act_on = threaded(SchedulesClient.act_on)


class AsyncCatchup(AsyncPart):
    """As `book.catchup`, awaited."""

    list = threaded(CatchupClient.list)
    approve = threaded(CatchupClient.approve)
    reject = threaded(CatchupClient.reject)
    decide = threaded(CatchupClient.decide)


class ThreadedRuns(AsyncPart):
    """As `book.runs`, awaited."""

    list = threaded(RunsClient.list)
    get = threaded(RunsClient.get)
    cancel = threaded(RunsClient.cancel)
    retry = threaded(RunsClient.retry)
    output = threaded(RunsClient.output)
    attempts = threaded(RunsClient.attempts)
    log = threaded(RunsClient.log)
    short_ids = threaded(RunsClient.short_ids)


class AsyncFlows(AsyncPart):
    """As `book.flows`, awaited."""

    list = threaded(FlowsClient.list)
    problems = threaded(FlowsClient.problems)
    validate = threaded(FlowsClient.validate)
    forget = threaded(FlowsClient.forget)
    get = threaded(FlowsClient.get)
    runs = threaded(FlowsClient.runs)
    start = threaded(FlowsClient.start)
    stop = threaded(FlowsClient.stop)
    restart = threaded(FlowsClient.restart)
    performed = threaded(FlowsClient.performed)
    steps = threaded(FlowsClient.steps)
    explain = threaded(FlowsClient.explain)
    retry = threaded(FlowsClient.retry)
    approve = threaded(FlowsClient.approve)
    reject = threaded(FlowsClient.reject)
    source = threaded(FlowsClient.source)
    broken_source = threaded(FlowsClient.broken_source)
    broken_file = threaded(FlowsClient.broken_file)
    params = threaded(FlowsClient.params)


class AsyncNodes(AsyncPart):
    """As `book.nodes`, awaited."""

    list = threaded(NodesClient.list)
    drain = threaded(NodesClient.drain)
    undrain = threaded(NodesClient.undrain)


class AsyncEvents(AsyncPart):
    """As `book.events`, awaited."""

    position = threaded(EventsClient.position)
    page = threaded(EventsClient.page)
    list = threaded(EventsClient.list)
    latest = threaded(EventsClient.latest)
    tail = threaded(EventsClient.tail)
    publish = threaded(EventsClient.publish)
    topics = threaded(EventsClient.topics)
    consumers = threaded(EventsClient.consumers)
    lags = threaded(EventsClient.lags)
    partitions = threaded(EventsClient.partitions)
    add_sink = threaded(EventsClient.add_sink)  # type: ignore[arg-type]
    set_ping = threaded(EventsClient.set_ping)
    remove_ping = threaded(EventsClient.remove_ping)
    remove = threaded(EventsClient.remove)
    replay = threaded(EventsClient.replay)
    dead_letters = threaded(EventsClient.dead_letters)
    replay_dead = threaded(EventsClient.replay_dead)
    drop_dead = threaded(EventsClient.drop_dead)
    get = threaded(EventsClient.get)
    sinks = threaded(EventsClient.sinks)


class AsyncQueues(AsyncPart):
    """As `book.queues`, awaited."""

    list = threaded(QueuesClient.list)
    limit = threaded(QueuesClient.limit)
    free = threaded(QueuesClient.free)


class AsyncTemplates(AsyncPart):
    """As `book.templates`, awaited."""

    list = threaded(TemplatesClient.list)
    get = threaded(TemplatesClient.get)
    save = threaded(TemplatesClient.save)  # type: ignore[arg-type]
    remove = threaded(TemplatesClient.remove)


class AsyncCalendars(AsyncPart):
    """As `book.calendars`, awaited."""

    list = threaded(CalendarsClient.list)
    get = threaded(CalendarsClient.get)
    days = threaded(CalendarsClient.days)
    preview = threaded(CalendarsClient.preview)  # type: ignore[arg-type]
    save = threaded(CalendarsClient.save)  # type: ignore[arg-type]
    remove = threaded(CalendarsClient.remove)


class AsyncWindows(AsyncPart):
    """As `book.windows`, awaited."""

    list = threaded(WindowsClient.list)
    add = threaded(WindowsClient.add)
    remove = threaded(WindowsClient.remove)


class AsyncShadow(AsyncPart):
    """As `book.shadow`, awaited."""

    list = threaded(ShadowClient.list)
    on = threaded(ShadowClient.on)
    off = threaded(ShadowClient.off)
    report = threaded(ShadowClient.report)


class AsyncFeeds(AsyncPart):
    """As `book.feeds`, awaited."""

    list = threaded(FeedsClient.list)
    create = threaded(FeedsClient.create)
    revoke = threaded(FeedsClient.revoke)


class AsyncAlerts(AsyncPart):
    """As `book.alerts`, awaited."""

    list = threaded(AlertsClient.list)
    get = threaded(AlertsClient.get)
    save = threaded(AlertsClient.save)
    remove = threaded(AlertsClient.remove)
    silence = threaded(AlertsClient.silence)
    test = threaded(AlertsClient.test)
    delivery = threaded(AlertsClient.delivery)
    history = threaded(AlertsClient.history)


class AsyncAudit(AsyncPart):
    """As `book.audit`, awaited."""

    list = threaded(AuditClient.list)


class AsyncNamespaces(AsyncPart):
    """As `book.namespaces`, awaited."""

    list = threaded(NamespacesClient.list)
    limit = threaded(NamespacesClient.limit)
    free = threaded(NamespacesClient.free)
    keep = threaded(NamespacesClient.keep)
    recount = threaded(NamespacesClient.recount)


class AsyncTokens(AsyncPart):
    """As `book.tokens`, awaited."""

    list = threaded(TokensClient.list)
    create = threaded(TokensClient.create)
    revoke = threaded(TokensClient.revoke)
    check = threaded(TokensClient.check)
    look_up = threaded(TokensClient.look_up)


class AsyncDoctor(AsyncPart):
    """As `book.doctor`, awaited."""

    examine = threaded(DoctorClient.examine)
    repair = threaded(DoctorClient.repair)
    note_backup = threaded(DoctorClient.note_backup)


class AsyncZones(AsyncPart):
    """As `book.zones`, awaited."""

    diff = threaded(ZonesClient.diff)


# derived: end
