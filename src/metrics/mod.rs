//! Counts what the daemon does, and writes the metrics in Prometheus' text format, for the control socket and for HTTP.
//!
//! Labels name platforms, agents, stages and outcomes, from fixed lists. They never name a session or a chat.

pub mod http;
mod labelled;
pub mod text;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::clock;
use crate::domain::HandoffStage;
pub use crate::metrics::labelled::LabelledFamily;
use crate::metrics::labelled::{Label, seconds};

const AGENT: Label = Label {
    name: "agent",
    values: &["hermes", "openai", "acp", "command", "echo"],
};
const STAGE: Label = Label {
    name: "stage",
    values: &[
        "claimed",
        "homed",
        "threaded",
        "bound",
        "answered",
        "delivered",
        "settled",
    ],
};
const STATES: [&str; 5] = ["up", "degraded", "connecting", "down", "off"];

const fn outcome(values: &'static [&'static str]) -> Label {
    Label {
        name: "outcome",
        values,
    }
}

type Seconds = Counter<f64, AtomicU64>;

/// The metrics of the database writer. The store has them from its start, and [`Metrics`] includes them.
#[derive(Clone)]
pub struct Database {
    pub busy: Counter,
    pub commit: Histogram,
    pub group: Histogram,
}

impl Default for Database {
    fn default() -> Self {
        Database {
            busy: Counter::default(),
            commit: seconds(),
            group: Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
        }
    }
}

/// The values that are read when the metrics are requested.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// Name and state of every platform.
    pub platforms: Vec<(String, &'static str)>,
    pub handoffs_pending: usize,
    pub handoffs_running: usize,
    pub turns_running: usize,
    pub messages_waiting: usize,
    pub connections: usize,
}

pub struct Metrics {
    registry: Registry,
    platform: Label,
    handoffs: LabelledFamily<Counter>,
    stages: LabelledFamily<Histogram>,
    turns: LabelledFamily<Counter>,
    turn_seconds: LabelledFamily<Histogram>,
    deliveries: LabelledFamily<Counter>,
    retries: Family<[(&'static str, &'static str); 1], Counter>,
    waits: LabelledFamily<Counter>,
    wait_seconds: LabelledFamily<Seconds>,
    inbound: LabelledFamily<Counter>,
    states: LabelledFamily<Gauge>,
    queue: Family<[(&'static str, &'static str); 1], Gauge>,
    connections: Gauge,
}

/// How the daemon handled a message from a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOutcome {
    Accepted,
    Duplicate,
    Denied,
    Stranger,
}

impl MessageOutcome {
    fn as_str(self) -> &'static str {
        match self {
            MessageOutcome::Accepted => "accepted",
            MessageOutcome::Duplicate => "duplicate",
            MessageOutcome::Denied => "denied",
            MessageOutcome::Stranger => "stranger",
        }
    }
}

/// Why a message had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitReason {
    /// Our own pace, which keeps within the platform's limits.
    Pace,
    /// The platform asked for the wait.
    Asked,
}

/// Shorter times do not count as waits.
const WAIT: Duration = Duration::from_millis(1);

impl Metrics {
    /// `platforms` has the values of the label `platform`.
    pub fn new(
        database: &Database,
        started_at: f64,
        platforms: &'static [&'static str],
    ) -> Metrics {
        let platform = Label {
            name: "platform",
            values: platforms,
        };
        let metrics = Metrics {
            registry: Registry::with_prefix("hermesd"),
            platform,
            handoffs: counters(platform, outcome(&["completed", "failed", "cancelled"])),
            stages: histograms(platform, STAGE),
            turns: counters(
                AGENT,
                outcome(&[
                    "answered",
                    "failed",
                    "timed_out",
                    "empty",
                    "lost",
                    "cancelled",
                ]),
            ),
            turn_seconds: histograms(AGENT, outcome(&["answered", "failed"])),
            deliveries: counters(platform, outcome(&["sent", "repeated", "failed", "gone"])),
            retries: Family::default(),
            waits: counters(platform, cause()),
            wait_seconds: LabelledFamily::new(platform, cause(), Family::default()),
            inbound: counters(
                platform,
                Label {
                    name: "verdict",
                    values: &["accepted", "duplicate", "denied", "stranger"],
                },
            ),
            states: LabelledFamily::new(
                platform,
                Label {
                    name: "state",
                    values: &STATES,
                },
                Family::default(),
            ),
            queue: Family::default(),
            connections: Gauge::default(),
        };
        metrics.registered(database, started_at)
    }

    fn registered(mut self, database: &Database, started_at: f64) -> Metrics {
        let r = &mut self.registry;
        let version = vec![("version", crate::VERSION)];
        r.register("build", "The version that runs", Info::new(version));
        let start = Gauge::<f64, AtomicU64>::default();
        start.set(started_at);
        r.register(
            "process_start_time_seconds",
            "When the daemon started, in seconds since the epoch",
            start,
        );
        let (family, help) = (self.handoffs.family.clone(), "Handoffs that have ended");
        r.register("handoffs", help, family);
        r.register(
            "handoff_stage_seconds",
            "Time from one stage of a handoff to the next",
            self.stages.family.clone(),
        );
        let (family, help) = (self.turns.family.clone(), "Turns of agents");
        r.register("turns", help, family);
        r.register(
            "turn_seconds",
            "How long turns of agents took",
            self.turn_seconds.family.clone(),
        );
        r.register(
            "deliveries",
            "Messages sent to chats",
            self.deliveries.family.clone(),
        );
        r.register(
            "retries",
            "Calls to platforms that were retried",
            self.retries.clone(),
        );
        r.register(
            "rate_limit_waits",
            "Calls to platforms that had to wait for a limit",
            self.waits.family.clone(),
        );
        r.register(
            "rate_limit_wait_seconds",
            "How long calls to platforms waited for limits",
            self.wait_seconds.family.clone(),
        );
        r.register(
            "inbound_messages",
            "Messages received from chats",
            self.inbound.family.clone(),
        );
        r.register(
            "platform_state",
            "1 for the state that a platform is in",
            self.states.family.clone(),
        );
        let (family, help) = (self.queue.clone(), "Work that waits or runs");
        r.register("queue_depth", help, family);
        r.register(
            "connections",
            "Open connections to the control socket",
            self.connections.clone(),
        );
        r.register(
            "database_busy_retries",
            "Retries because another program had locked the database",
            database.busy.clone(),
        );
        r.register(
            "database_commit_seconds",
            "How long commits took, including the wait for locks",
            database.commit.clone(),
        );
        r.register(
            "database_group_jobs",
            "Jobs that were committed together",
            database.group.clone(),
        );
        self
    }

    /// `error` is the reason why the handoff failed, if it did.
    pub fn handoff_ended(&self, platform: &str, error: Option<&str>) {
        let outcome = match error {
            None => "completed",
            Some(reason) if reason.starts_with("cancelled") => "cancelled",
            Some(_) => "failed",
        };
        self.handoffs.at(platform, outcome).inc();
    }

    pub fn stage_reached(&self, platform: &str, stage: HandoffStage, seconds: f64) {
        // A clock that was set back must not make a time negative.
        let seconds = seconds.max(0.0);
        self.stages.at(platform, stage.as_str()).observe(seconds);
    }

    pub fn turn_ended(&self, agent: &str, outcome: &str, took: Duration) {
        self.turns.at(agent, outcome).inc();
        if outcome != "cancelled" {
            let outcome = match outcome {
                "answered" => outcome,
                _ => "failed",
            };
            let seconds = took.as_secs_f64();
            self.turn_seconds.at(agent, outcome).observe(seconds);
        }
    }

    pub fn delivery_ended(&self, platform: &str, outcome: &str) {
        self.deliveries.at(platform, outcome).inc();
    }

    pub fn retried(&self, platform: &str) {
        self.retries
            .get_or_create(&[self.platform.with(platform)])
            .inc();
    }

    pub fn waited(&self, platform: &str, why: WaitReason, how_long: Duration) {
        if how_long < WAIT {
            return;
        }
        let cause = match why {
            WaitReason::Pace => "pace",
            WaitReason::Asked => "asked",
        };
        self.waits.at(platform, cause).inc();
        let seconds = self.wait_seconds.at(platform, cause);
        seconds.inc_by(how_long.as_secs_f64());
    }

    pub fn count_inbound(&self, platform: &str, how: MessageOutcome) {
        self.inbound.at(platform, how.as_str()).inc();
    }

    /// All metrics as text.
    pub fn text(&self, now: &Now) -> String {
        for (platform, current) in &now.platforms {
            for state in STATES {
                let is_it = i64::from(state == *current);
                self.states.at(platform, state).set(is_it);
            }
        }
        for (what, count) in [
            ("handoffs_pending", now.handoffs_pending),
            ("handoffs_running", now.handoffs_running),
            ("turns_running", now.turns_running),
            ("messages_waiting", now.messages_waiting),
        ] {
            let gauge = self.queue.get_or_create(&[("what", what)]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let connections = i64::try_from(now.connections).unwrap_or(i64::MAX);
        self.connections.set(connections);
        text::of(&self.registry)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new(&Database::default(), clock::now(), &[])
    }
}

fn cause() -> Label {
    Label {
        name: "cause",
        values: &["pace", "asked"],
    }
}

fn counters(first: Label, second: Label) -> LabelledFamily<Counter> {
    LabelledFamily::new(first, second, Family::default())
}

fn histograms(first: Label, second: Label) -> LabelledFamily<Histogram> {
    LabelledFamily::new(first, second, Family::new_with_constructor(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_place() {
        assert_eq!(HandoffStage::ALL.map(HandoffStage::as_str), STAGE.values);
    }

    #[test]
    fn what_is_counted_is_told() {
        let database = Database::default();
        let metrics = Metrics::new(&database, 1234.5, &["local", "telegram"]);
        metrics.handoff_ended("local", None);
        metrics.handoff_ended("local", None);
        metrics.handoff_ended("telegram", Some("cancelled"));
        metrics.handoff_ended("../../etc", Some("no such platform"));
        metrics.stage_reached("local", HandoffStage::Bound, 0.002);
        metrics.stage_reached("local", HandoffStage::Bound, -5.0);
        metrics.turn_ended("echo", "answered", Duration::from_millis(20));
        metrics.waited("telegram", WaitReason::Pace, Duration::from_micros(10));
        metrics.waited("telegram", WaitReason::Asked, Duration::from_millis(1500));
        metrics.count_inbound("telegram", MessageOutcome::Stranger);
        database.busy.inc();
        database.group.observe(3.0);
        let text = metrics.text(&Now {
            platforms: vec![("local".into(), "up")],
            handoffs_pending: 2,
            connections: 1,
            ..Now::default()
        });
        for line in [
            "# TYPE hermesd_handoffs_total counter",
            "hermesd_handoffs_total{platform=\"local\",outcome=\"completed\"} 2",
            "hermesd_handoffs_total{platform=\"telegram\",outcome=\"cancelled\"} 1",
            "hermesd_handoffs_total{platform=\"other\",outcome=\"failed\"} 1",
            "# TYPE hermesd_handoff_stage_seconds histogram",
            "hermesd_handoff_stage_seconds_count{platform=\"local\",stage=\"bound\"} 2",
            "hermesd_handoff_stage_seconds_bucket{le=\"0.0025\",platform=\"local\",stage=\"bound\"} 2",
            "hermesd_turns_total{agent=\"echo\",outcome=\"answered\"} 1",
            "hermesd_rate_limit_waits_total{platform=\"telegram\",cause=\"asked\"} 1",
            "hermesd_rate_limit_wait_seconds_total{platform=\"telegram\",cause=\"asked\"} 1.5",
            "hermesd_inbound_messages_total{platform=\"telegram\",verdict=\"stranger\"} 1",
            "hermesd_platform_state{platform=\"local\",state=\"up\"} 1",
            "hermesd_platform_state{platform=\"local\",state=\"down\"} 0",
            "hermesd_queue_depth{what=\"handoffs_pending\"} 2",
            "hermesd_connections 1",
            "hermesd_database_busy_retries_total 1",
            "hermesd_database_group_jobs_sum 3.0",
            "hermesd_process_start_time_seconds 1234.5",
            "# TYPE hermesd_build_info gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
        let build = format!("hermesd_build_info{{version=\"{}\"}} 1", crate::VERSION);
        assert!(text.contains(&build), "{text}");
        assert!(!text.contains("cause=\"pace\"") && !text.contains("etc"));
    }
}
