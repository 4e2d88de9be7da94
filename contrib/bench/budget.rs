//! What the design allows, and the rows of the report that hold the numbers against it.

use crate::home::Kind;
use crate::measure::Numbers;
use crate::report::{Report, Unit};

/// From a request, or another program's commit, to the pushed end, with every promise flushed to the disk; milliseconds,
/// like the next five.
const HANDOFF: f64 = 3.0;
const HANDOFF_P99: f64 = 15.0;
const HANDOFF_UNFLUSHED: f64 = 1.5;
const BURST: f64 = 1000.0;
const READY: f64 = 20.0;
const TRANSCRIPT: f64 = 30.0;
/// MB, however long it ran.
const RESIDENT: f64 = 25.0;
/// Percent of one core. One tick of the kernel's clock in the ten seconds that are watched cannot be told from nothing.
const IDLE_CPU: f64 = 0.15;
/// What still counts as flat: between two runs on one database the numbers differ as much on a busy machine.
const FLAT: f64 = 1.5;

/// The small database comes first; the others are held against it, too.
pub(crate) fn compare(report: &mut Report, all: &[Numbers]) {
    for numbers in all {
        add_numbers(report, numbers);
        if numbers.kind != Kind::Small {
            add_ratios(report, &all[0], numbers);
        }
    }
}

fn add_numbers(report: &mut Report, numbers: &Numbers) {
    let kind = numbers.kind;
    let mut row = |metric: &str, unit, measured, budget| {
        report.add(format!("{}: {metric}", kind.name()), unit, measured, budget);
    };
    let ms = Unit::Milliseconds;
    row("spawn to hello", ms, numbers.ready.p50(), Some(READY));
    row("which session is live", ms, numbers.unnamed.p50(), None);
    row(
        "request to wait, p50",
        ms,
        numbers.wait.p50(),
        Some(HANDOFF),
    );
    row(
        "request to wait, p99",
        ms,
        numbers.wait.p99(),
        Some(HANDOFF_P99),
    );
    if kind == Kind::Small {
        let (p50, p99) = (numbers.unflushed.p50(), numbers.unflushed.p99());
        row("  without flushes, p50", ms, p50, Some(HANDOFF_UNFLUSHED));
        row("  without flushes, p99", ms, p99, None);
        for (stage, times) in &numbers.stages {
            row(&format!("  of it up to {stage}"), ms, times.p50(), None);
        }
    }
    row(
        "request to event, p50",
        ms,
        numbers.event.p50(),
        Some(HANDOFF),
    );
    row(
        "request to event, p99",
        ms,
        numbers.event.p99(),
        Some(HANDOFF_P99),
    );
    row("foreign row to claim, p50", ms, numbers.claimed.p50(), None);
    row("foreign row to claim, p99", ms, numbers.claimed.p99(), None);
    row(
        "foreign row to event, p50",
        ms,
        numbers.foreign.p50(),
        Some(HANDOFF),
    );
    row(
        "foreign row to event, p99",
        ms,
        numbers.foreign.p99(),
        Some(HANDOFF_P99),
    );
    row(
        "burst seen by events",
        ms,
        numbers.burst_told.p50(),
        Some(BURST),
    );
    row(
        "burst, each waited",
        ms,
        numbers.burst_waits.p50(),
        Some(BURST),
    );
    if kind == Kind::Small {
        row(
            "transcript load",
            ms,
            numbers.transcript.p50(),
            Some(TRANSCRIPT),
        );
    }
    let (megabytes, percent) = (Unit::Megabytes, Unit::Percent);
    for (when, memory) in [
        ("fresh", numbers.fresh.memory),
        ("after one burst", numbers.first_burst.unwrap_or_default()),
        ("after all bursts", numbers.after.memory),
    ] {
        let [resident, anonymous] = ["resident", "anonymous"].map(|what| format!("{what}, {when}"));
        row(&resident, megabytes, memory.resident, Some(RESIDENT));
        row(&anonymous, megabytes, memory.anonymous, None);
    }
    row("CPU, fresh", percent, numbers.fresh.cpu, Some(IDLE_CPU));
    row(
        "CPU, afterwards",
        percent,
        numbers.after.cpu,
        Some(IDLE_CPU),
    );
}

fn add_ratios(report: &mut Report, small: &Numbers, big: &Numbers) {
    let name = big.kind.name();
    let rows = [
        ("spawn to hello", &small.ready, &big.ready),
        ("which session is live", &small.unnamed, &big.unnamed),
        ("request to wait", &small.wait, &big.wait),
        ("request to event", &small.event, &big.event),
        ("foreign row to event", &small.foreign, &big.foreign),
        ("burst seen by events", &small.burst_told, &big.burst_told),
        ("burst, each waited", &small.burst_waits, &big.burst_waits),
    ];
    for (metric, small, big) in rows {
        report.add(
            format!("{name} / small: {metric}"),
            Unit::Ratio,
            big.p50() / small.p50(),
            Some(FLAT),
        );
    }
}
