//! The way of a call through a fake: record, script, work, answer.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

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
            return call.refuse(refusal).into_response();
        }
        self.faults.pass_gate().await;
        let fault = call.look(|recorded| self.faults.next(recorded, W::POLLS));
        if let Some(refusal) = before::<W>(fault.as_ref()).await {
            return call.refuse(refusal).into_response();
        }
        let answer = match (work.await, &fault) {
            (Ok(done), Some(ScriptedFault::AnswerAfter(answer))) => {
                call.finish(done);
                answer.clone()
            }
            (Ok(done), _) => call.finish(done),
            (Err(refusal), _) => call.refuse(refusal),
        };
        send(fault, answer).await
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
        ScriptedFault::Delay(time) => {
            tokio::time::sleep(*time).await;
            None
        }
        ScriptedFault::AnswerAfter(_)
        | ScriptedFault::DisconnectAfter
        | ScriptedFault::DisconnectWithin(_)
        | ScriptedFault::InPieces { .. }
        | ScriptedFault::HoldAfter(_) => None,
    }
}

/// Sends the answer the way that the fault wants it.
async fn send(fault: Option<ScriptedFault>, answer: Answer) -> Response {
    match fault {
        Some(ScriptedFault::DisconnectAfter) => disconnect(),
        Some(ScriptedFault::DisconnectWithin(bytes)) => cut_off(answer, bytes),
        Some(ScriptedFault::InPieces { size, pause }) => in_pieces(answer, size, pause),
        Some(ScriptedFault::HoldAfter(permits)) => {
            permits.acquire().await.expect("open").forget();
            answer.into_response()
        }
        _ => answer.into_response(),
    }
}

fn cut_off(answer: Answer, bytes: usize) -> Response {
    let begun = answer.body.slice(..bytes.min(answer.body.len()));
    let (pieces, sent) = mpsc::channel(1);
    tokio::spawn(async move {
        // The channel holds one piece, so the first is sent before there is a second.
        let _ = pieces.send(Ok(begun)).await;
        let _ = pieces.send(Err(std::io::Error::other("cut off"))).await;
    });
    answer.with_body(Body::from_stream(ReceiverStream::new(sent)))
}

fn in_pieces(answer: Answer, size: usize, pause: Duration) -> Response {
    let (pieces, sent) = mpsc::channel(1);
    let whole = answer.body.clone();
    tokio::spawn(async move {
        for start in (0..whole.len()).step_by(size) {
            if start > 0 {
                tokio::time::sleep(pause).await;
            }
            let piece = whole.slice(start..whole.len().min(start + size));
            let piece: Result<Bytes, Infallible> = Ok(piece);
            if pieces.send(piece).await.is_err() {
                return;
            }
        }
    });
    answer.with_body(Body::from_stream(ReceiverStream::new(sent)))
}

/// Ends the task of the connection, and with it the connection. The panic hook stays silent.
pub fn disconnect() -> ! {
    std::panic::resume_unwind(Box::new("disconnected"))
}
