//! What goes wrong, when a test wants it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;
use tokio::sync::Semaphore;

use super::BotApi;
use super::rules::Refusal;

/// What it does with a call that is as it should be.
#[derive(Debug, Clone)]
pub enum Play {
    /// Tells to come back after so many seconds.
    TooMany { retry_after: u64 },
    /// Answers as the vendor's front does when nobody is behind it: with a page.
    Status(u16),
    /// Says that another instance polls.
    Conflict,
    /// Knows the token no longer.
    Unauthorized,
    /// Takes the call and hangs up without doing it.
    HangUpBefore,
    /// Does it, and hangs up without a word.
    HangUpAfter,
    /// Takes the call and never answers.
    Mute,
    /// Refuses with this status and description.
    Refuse(u16, &'static str),
    /// Sends the caller to another address.
    Redirect(String),
    /// Does it, and answers with a result that no library can read.
    Strange,
    /// Says at once that there is nothing, however long the caller would wait.
    Nothing,
    /// Does it, and answers when there is a permit.
    Hold(Arc<Semaphore>),
    /// Does it when there is a permit; never, if the caller is gone by then.
    HoldBefore(Arc<Semaphore>),
}

#[derive(Default)]
pub struct Plays {
    queues: Mutex<HashMap<String, VecDeque<Play>>>,
    /// What every call meets, while it is set.
    always: Mutex<Option<Play>>,
    /// Every call needs a permit, while it is set.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

/// The queue for whatever comes.
const ANY: &str = "*";

impl Plays {
    pub fn next(&self, method: &str) -> Option<Play> {
        let mut queues = self.queues.lock().unwrap();
        let mut pop = |name: &str| queues.get_mut(name).and_then(VecDeque::pop_front);
        let next = pop(method);
        // There is always a poll; a play for it has to name it.
        let next = match method {
            "getUpdates" => next,
            _ => next.or_else(|| pop(ANY)),
        };
        next.or_else(|| self.always.lock().unwrap().clone())
    }

    /// Waits until calls may pass.
    pub async fn pass(&self) {
        let gate = self.gate.lock().unwrap().clone();
        // A gate that is closed for good stands open.
        if let Some(gate) = gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
    }
}

impl BotApi {
    /// The next call of this method that is as it should be meets this. Fetching a file is a method called `file`.
    pub fn then(&self, method: &str, play: Play) -> &BotApi {
        let mut queues = self.stage.plays.queues.lock().unwrap();
        queues.entry(method.to_owned()).or_default().push_back(play);
        self
    }

    /// The next call of whatever method but `getUpdates` meets this.
    pub fn then_any(&self, play: Play) -> &BotApi {
        self.then(ANY, play)
    }

    /// All calls meet this, until there is none.
    pub fn always(&self, play: Option<Play>) {
        *self.stage.plays.always.lock().unwrap() = play;
    }

    /// Holds every call from now on before it is done. What waits already goes on waiting.
    pub fn pause_all(&self) {
        self.pause_after(0);
    }

    /// Lets so many calls be done, polls among them, and holds all others.
    pub fn pause_after(&self, calls: usize) {
        let gate = Arc::new(Semaphore::new(calls));
        *self.stage.plays.gate.lock().unwrap() = Some(gate);
    }

    /// Lets so many of the calls that are held be done, in their order.
    pub fn let_pass(&self, calls: usize) {
        let gate = self.stage.plays.gate.lock().unwrap();
        gate.as_ref().expect("a pause").add_permits(calls);
    }

    /// Lets everything be done again.
    pub fn resume_all(&self) {
        if let Some(gate) = self.stage.plays.gate.lock().unwrap().take() {
            gate.close();
        }
    }
}

/// An answer that stands for doing what was asked.
pub struct Instead {
    pub response: Response,
    pub refusal: Option<Refusal>,
}

/// What happens before anything is done. Nothing is done when there is an answer.
pub async fn before(play: Option<&Play>) -> Option<Instead> {
    let refusal = match play? {
        Play::TooMany { retry_after } => Refusal::too_many(*retry_after),
        Play::Conflict => Refusal::conflict(),
        Play::Unauthorized => Refusal::unauthorized(),
        Play::Refuse(status, description) => Refusal::new(*status, *description),
        Play::Status(status) => {
            let status = StatusCode::from_u16(*status).expect("a status");
            let page = format!(
                "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n\
                 <hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n"
            );
            return Some(Instead {
                response: (status, Html(page)).into_response(),
                refusal: Some(Refusal::new(status.as_u16(), "")),
            });
        }
        Play::Redirect(to) => {
            let response = (StatusCode::FOUND, [("location", to.clone())], "").into_response();
            return Some(Instead {
                response,
                refusal: Some(Refusal::new(302, "")),
            });
        }
        Play::Nothing => {
            let nothing = axum::Json(json!({"ok": true, "result": []}));
            return Some(Instead {
                response: nothing.into_response(),
                refusal: Some(Refusal::new(200, "")),
            });
        }
        Play::HangUpBefore => hang_up(),
        Play::Mute => std::future::pending().await,
        Play::HoldBefore(permits) => {
            permits.acquire().await.expect("open").forget();
            return None;
        }
        Play::HangUpAfter | Play::Hold(_) | Play::Strange => return None,
    };
    Some(Instead {
        response: refusal.clone().into_response(),
        refusal: Some(refusal),
    })
}

/// What happens when it is done and not yet answered.
pub async fn after(play: Option<&Play>) {
    match play {
        Some(Play::HangUpAfter) => hang_up(),
        Some(Play::Hold(permits)) => permits.acquire().await.expect("open").forget(),
        _ => {}
    }
}

/// Ends the connection's task, and with it the connection, without a word to anybody.
fn hang_up() -> ! {
    std::panic::resume_unwind(Box::new("hung up"))
}
