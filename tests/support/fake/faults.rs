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
    /// Never answers, and does nothing else.
    Hang,
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
    /// Any call but a poll.
    Any,
}

#[derive(Default)]
pub struct FaultScript {
    faults: Mutex<VecDeque<(Scope, ScriptedFault)>>,
    /// Each call meets this, while it is set.
    always: Mutex<Option<ScriptedFault>>,
    /// Each call needs a permit, while it is set.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl FaultScript {
    /// The fault for a call. A fault that names the method comes before one for any call.
    pub fn next(&self, call: &RecordedCall, polls: &[&str]) -> Option<ScriptedFault> {
        let mut faults = self.faults.lock().unwrap();
        let named = |scope: &Scope| matches!(scope, Scope::Method(name) if *name == call.method);
        let any = |scope: &Scope| matches!(scope, Scope::Any);
        let mut found = faults.iter().position(|(scope, _)| named(scope));
        if found.is_none() && !polls.contains(&call.method.as_str()) {
            found = faults.iter().position(|(scope, _)| any(scope));
        }
        let fault = found
            .and_then(|at| faults.remove(at))
            .map(|(_, fault)| fault);
        fault.or_else(|| self.always.lock().unwrap().clone())
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

    fn add(&self, scope: Scope, fault: ScriptedFault) {
        self.faults.lock().unwrap().push_back((scope, fault));
    }
}

impl<W> FakeServer<W> {
    /// The next call of this method that is valid meets this.
    pub fn then(&self, method: &str, fault: ScriptedFault) -> &Self {
        let scope = Scope::Method(method.to_owned());
        self.state.faults.add(scope, fault);
        self
    }

    /// The next valid call of any method meets this. Polls do not count.
    pub fn then_any(&self, fault: ScriptedFault) -> &Self {
        self.state.faults.add(Scope::Any, fault);
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
