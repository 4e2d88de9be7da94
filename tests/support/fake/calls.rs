//! The record of all calls, and waiting for calls.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

use super::signal::ChangeSignal;
use super::{Answer, Done, FakeServer, Refusal};

/// A call as it arrived, whatever became of it.
#[derive(Debug, Clone)]
pub struct RecordedCall {
    /// The name that the vendor's documentation gives it, or the HTTP method and path.
    pub method: String,
    pub params: Value,
    /// The time of arrival.
    pub at: Instant,
    /// The time of its outcome.
    pub ended: Option<Instant>,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is underway and not done yet.
    Arrived,
    /// It was not done, and one side has closed the connection.
    Abandoned,
    /// It was done, whether or not the client received the answer.
    Done(Value),
    /// The status, and the description that the vendor gives.
    Refused(u16, String),
}

pub struct CallLog {
    calls: Mutex<Vec<RecordedCall>>,
    changes: Arc<ChangeSignal>,
}

impl CallLog {
    pub fn new(changes: Arc<ChangeSignal>) -> CallLog {
        CallLog {
            calls: Mutex::default(),
            changes,
        }
    }

    pub fn begin(&self, method: &str, params: Value) -> OpenCall<'_> {
        let mut calls = self.calls.lock().unwrap();
        calls.push(RecordedCall {
            method: method.to_owned(),
            params,
            at: Instant::now(),
            ended: None,
            outcome: Outcome::Arrived,
        });
        let number = calls.len() - 1;
        drop(calls);
        self.changes.wake_tests();
        OpenCall { log: self, number }
    }
}

/// A call that is underway. If it is dropped without an outcome, its outcome is [`Outcome::Abandoned`].
pub struct OpenCall<'a> {
    log: &'a CallLog,
    number: usize,
}

impl OpenCall<'_> {
    /// Looks at the record of this call.
    pub fn look<T>(&self, look: impl FnOnce(&RecordedCall) -> T) -> T {
        look(&self.log.calls.lock().unwrap()[self.number])
    }

    /// Records the result and gives the answer.
    pub fn finish(&self, done: Done) -> Answer {
        self.end(Outcome::Done(done.result));
        done.answer
    }

    /// Records the refusal and gives the answer.
    pub fn refuse(&self, refusal: Refusal) -> Answer {
        let status = refusal.answer.status;
        self.end(Outcome::Refused(status, refusal.description));
        refusal.answer
    }

    fn end(&self, outcome: Outcome) {
        let call = &mut self.log.calls.lock().unwrap()[self.number];
        call.outcome = outcome;
        call.ended = Some(Instant::now());
        self.log.changes.wake_tests();
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if self.look(|call| call.outcome == Outcome::Arrived) {
            self.end(Outcome::Abandoned);
        }
    }
}

impl<W> FakeServer<W> {
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.state.calls.calls.lock().unwrap().clone()
    }

    pub fn calls_of(&self, method: &str) -> Vec<RecordedCall> {
        let calls = self.state.calls.calls.lock().unwrap();
        let calls = calls.iter().filter(|call| call.method == method);
        calls.cloned().collect()
    }

    /// The calls of a method that were refused with this status.
    pub fn refused(&self, method: &str, status: u16) -> Vec<RecordedCall> {
        let mut calls = self.calls_of(method);
        calls.retain(|call| matches!(&call.outcome, Outcome::Refused(s, _) if *s == status));
        calls
    }

    /// Waits until so many calls of a method have arrived.
    pub fn until_calls(&self, method: &str, count: usize) -> Vec<RecordedCall> {
        self.until(method, || {
            Some(self.calls_of(method)).filter(|calls| calls.len() >= count)
        })
    }

    /// Waits until so many calls of a method have been done or refused.
    pub fn until_ended(&self, method: &str, count: usize) {
        self.until(method, || {
            let calls = self.calls_of(method).into_iter();
            let ended = calls
                .filter(|call| matches!(call.outcome, Outcome::Done(_) | Outcome::Refused(..)));
            (ended.count() >= count).then_some(())
        });
    }

    /// Waits until no call is underway, as after the end of the daemon.
    pub fn until_quiet(&self) {
        self.until("no call underway", || {
            let calls = self.calls();
            let quiet = calls.iter().all(|call| call.outcome != Outcome::Arrived);
            quiet.then_some(())
        });
    }
}
