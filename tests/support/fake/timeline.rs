//! What happened when: all calls of a server, for people to read.

use std::fmt;
use std::time::Duration;

use super::{FakeServer, Outcome, RecordedCall, Vendor};

/// Where a call goes, as far as it names a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    pub chat: Option<String>,
    pub thread: Option<String>,
}

#[derive(Debug, Clone)]
pub struct TimelineEntry {
    /// The time of arrival, counted from the first call.
    pub arrived: Duration,
    /// The time from arrival to outcome. A call that is underway has none.
    pub took: Option<Duration>,
    pub method: String,
    pub place: Place,
    pub outcome: Outcome,
}

/// One entry for each call, in the order of arrival. It displays as a table.
#[derive(Debug, Clone)]
pub struct Timeline(pub Vec<TimelineEntry>);

impl<W: Vendor> FakeServer<W> {
    pub fn timeline(&self) -> Timeline {
        let calls = self.calls();
        let first = calls.first().map(|call| call.at);
        let entry = |call: RecordedCall| TimelineEntry {
            arrived: first.map_or(Duration::ZERO, |first| call.at - first),
            took: call.ended.map(|ended| ended - call.at),
            place: W::place(&call),
            method: call.method,
            outcome: call.outcome,
        };
        Timeline(calls.into_iter().map(entry).collect())
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timeline(entries) = self;
        entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

impl fmt::Display for TimelineEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.took.map_or("…".to_owned(), |took| {
            format!("{:.3}", took.as_secs_f64())
        });
        let or_dash = |name: &Option<String>| name.clone().unwrap_or("-".to_owned());
        let outcome = match &self.outcome {
            Outcome::Arrived => "underway".to_owned(),
            Outcome::Abandoned => "abandoned".to_owned(),
            Outcome::Done(_) => "done".to_owned(),
            Outcome::Refused(status, why) => format!("refused {status} {why}"),
        };
        write!(
            f,
            "{:>9.3} s  took {:>7} s  {:<24} chat {:<16} thread {:<8} {}",
            self.arrived.as_secs_f64(),
            took,
            self.method,
            or_dash(&self.place.chat),
            or_dash(&self.place.thread),
            outcome.trim_end(),
        )
    }
}
