//! The way of a call through a fake: record, script, work, answer.

use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::{Answer, Done, FakeState, Refusal, ScriptedFault, Vendor};

impl<W: Vendor> FakeState<W> {
    /// Does `work` and answers, unless the call is not `allowed` or a scripted fault prevents it.
    pub async fn serve(
        &self,
        method: &str,
        params: Value,
        allowed: Result<(), Refusal>,
        work: impl Future<Output = Result<Done, Refusal>>,
    ) -> Response {
        let call = self.record(method, params);
        if let Err(refusal) = allowed {
            return call.refuse(refusal);
        }
        self.faults.pass_gate().await;
        let fault = call.look(|recorded| self.faults.next(recorded, W::POLLS));
        if let Some(refusal) = before::<W>(fault.as_ref()).await {
            return call.refuse(refusal);
        }
        match work.await {
            Ok(done) => {
                call.done(&done);
                after(fault.as_ref()).await;
                match fault {
                    Some(ScriptedFault::AnswerAfter(answer)) => answer.into_response(),
                    _ => done.answer.into_response(),
                }
            }
            Err(refusal) => {
                let response = call.refuse(refusal);
                after(fault.as_ref()).await;
                response
            }
        }
    }
}

/// What happens before the work. A refusal takes its place.
async fn before<W: Vendor>(fault: Option<&ScriptedFault>) -> Option<Refusal> {
    let unexplained = |answer: Answer| Refusal {
        description: String::new(),
        answer,
    };
    match fault? {
        ScriptedFault::Refuse(status, description) => Some(W::refusal(*status, description, None)),
        ScriptedFault::TooManyRequests { retry_after } => {
            Some(W::refusal(429, "Too Many Requests", Some(*retry_after)))
        }
        ScriptedFault::ProxyPage(status) => Some(unexplained(Answer::proxy_page(*status))),
        ScriptedFault::Answer(answer) => Some(unexplained(answer.clone())),
        ScriptedFault::DisconnectBefore => disconnect(),
        ScriptedFault::Hang => std::future::pending().await,
        ScriptedFault::HoldBefore(permits) => {
            permits.acquire().await.expect("open").forget();
            None
        }
        ScriptedFault::AnswerAfter(_)
        | ScriptedFault::DisconnectAfter
        | ScriptedFault::HoldAfter(_) => None,
    }
}

/// What happens between the work and the answer.
async fn after(fault: Option<&ScriptedFault>) {
    match fault {
        Some(ScriptedFault::DisconnectAfter) => disconnect(),
        Some(ScriptedFault::HoldAfter(permits)) => permits.acquire().await.expect("open").forget(),
        _ => {}
    }
}

/// Ends the task of the connection, and with it the connection. The panic hook stays silent.
fn disconnect() -> ! {
    std::panic::resume_unwind(Box::new("disconnected"))
}
