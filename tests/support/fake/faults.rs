//! Faults that a test scripts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::{Answer, FakeServer, RecordedCall};

/// What a fake does with a call that its vendor would accept.
#[derive(Debug, Clone)]
pub enum ScriptedFault {
    /// Refuses with this status and description, in the vendor's format.
    Refuse(u16, &'static str),
    /// Refuses with status 429 and says when to come back, in the vendor's format.
    TooManyRequests { retry_after: Duration },
    /// Answers with the HTML page of a proxy that reaches no server behind it.
    ProxyPage(u16),
    /// Answers with this, and does nothing else.
    Answer(Answer),
    /// Does the work, and answers with this.
    AnswerAfter(Answer),
    /// Closes the connection, and does nothing else.
    DisconnectBefore,
    /// Does the work, and closes the connection without an answer.
    DisconnectAfter,
    /// Does the work, sends so many bytes of the answer's body and closes the connection.
    DisconnectWithin(usize),
    /// Never answers, and does nothing else.
    Hang,
    /// Waits before the work.
    Delay(Duration),
    /// Does the work, and sends the body of the answer in pieces of so many bytes with a pause between them.
    InPieces { size: usize, pause: Duration },
    /// Does the work when there is a permit; never, if the client is gone by then.
    HoldBefore(Arc<Semaphore>),
    /// Does the work, and answers when there is a permit.
    HoldAfter(Arc<Semaphore>),
}

impl ScriptedFault {
    pub fn too_many_requests(seconds: u64) -> ScriptedFault {
        ScriptedFault::TooManyRequests {
            retry_after: Duration::from_secs(seconds),
        }
    }

    pub fn redirect(to: String) -> ScriptedFault {
        ScriptedFault::Answer(Answer::redirect(to))
    }
}

/// The calls that a fault is for.
enum Scope {
    Method(String),
    Matching(Box<dyn Fn(&RecordedCall) -> bool + Send>),
    /// Any call but a poll.
    Any,
}

impl Scope {
    fn names(&self, call: &RecordedCall) -> bool {
        match self {
            Scope::Method(method) => *method == call.method,
            Scope::Matching(matches) => matches(call),
            Scope::Any => false,
        }
    }
}

struct ScriptEntry {
    scope: Scope,
    /// How many calls are still to meet it.
    left: usize,
    fault: ScriptedFault,
}

#[derive(Default)]
pub struct FaultScript {
    entries: Mutex<VecDeque<ScriptEntry>>,
    /// Each call meets this, while it is set.
    always: Mutex<Option<ScriptedFault>>,
    /// Each call needs a permit, while it is set.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl FaultScript {
    /// The fault for a call. Faults for certain calls come before faults for any call, and each kind comes in its order.
    pub fn next(&self, call: &RecordedCall, polls: &[&str]) -> Option<ScriptedFault> {
        let scripted = self.take(|scope| scope.names(call)).or_else(|| {
            let is_poll = polls.contains(&call.method.as_str());
            self.take(|scope| !is_poll && matches!(scope, Scope::Any))
        });
        scripted.or_else(|| self.always.lock().unwrap().clone())
    }

    /// Uses the first entry for such calls.
    fn take(&self, is_for: impl Fn(&Scope) -> bool) -> Option<ScriptedFault> {
        let mut entries = self.entries.lock().unwrap();
        let entry = entries.iter_mut().find(|entry| is_for(&entry.scope))?;
        entry.left -= 1;
        let fault = entry.fault.clone();
        entries.retain(|entry| entry.left > 0);
        Some(fault)
    }

    /// Waits until calls may pass.
    pub async fn pass_gate(&self) {
        let gate = self.gate.lock().unwrap().clone();
        // A gate that is closed for good stands open.
        if let Some(gate) = gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
    }

    fn add(&self, scope: Scope, calls: usize, fault: ScriptedFault) {
        assert!(calls > 0, "a fault for no call");
        let left = calls;
        let entry = ScriptEntry { scope, left, fault };
        self.entries.lock().unwrap().push_back(entry);
    }
}

impl<W> FakeServer<W> {
    /// The next call of this method that is valid meets this.
    pub fn then(&self, method: &str, fault: ScriptedFault) -> &Self {
        let scope = Scope::Method(method.to_owned());
        self.state.faults.add(scope, 1, fault);
        self
    }

    /// The next valid calls for which `matches` is true meet this, so many of them.
    pub fn next_calls(
        &self,
        count: usize,
        matches: impl Fn(&RecordedCall) -> bool + Send + 'static,
        fault: ScriptedFault,
    ) -> &Self {
        let scope = Scope::Matching(Box::new(matches));
        self.state.faults.add(scope, count, fault);
        self
    }

    /// The next valid call of any method meets this. Polls do not count.
    pub fn then_any(&self, fault: ScriptedFault) -> &Self {
        self.state.faults.add(Scope::Any, 1, fault);
        self
    }

    /// All calls meet this, until there is none.
    pub fn always(&self, fault: Option<ScriptedFault>) {
        *self.state.faults.always.lock().unwrap() = fault;
    }

    /// Holds each call from now on before its work. Calls that wait already go on waiting.
    pub fn pause_all(&self) {
        self.pause_after(0);
    }

    /// Lets so many calls be done, polls among them, and holds all others.
    pub fn pause_after(&self, calls: usize) {
        let gate = Arc::new(Semaphore::new(calls));
        *self.state.faults.gate.lock().unwrap() = Some(gate);
    }

    /// Lets so many of the held calls be done, in their order.
    pub fn let_pass(&self, calls: usize) {
        let gate = self.state.faults.gate.lock().unwrap();
        gate.as_ref().expect("a pause").add_permits(calls);
    }

    /// Lets all calls be done again.
    pub fn resume_all(&self) {
        if let Some(gate) = self.state.faults.gate.lock().unwrap().take() {
            gate.close();
        }
    }
}
