//! One handler a verb; this file only says which.

mod agents;
mod chat;
mod handoffs;
mod local;
mod pairing;
mod sessions;
mod status;

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::broadcast;

use crate::control::Desk;
use crate::events::Told;
use crate::protocol::{Call, RpcError, code};
use crate::sessions::{RequestError, stopping};
use crate::store::StoreError;

pub(super) use chat::Place;
pub(super) use handoffs::{ended, show};
pub(super) use status::hello;

pub(super) type Answer = Result<Box<RawValue>, RpcError>;

pub(super) struct Subscription {
    pub(super) topics: Vec<String>,
    pub(super) session: Option<String>,
    pub(super) events: broadcast::Receiver<Arc<Told>>,
}

/// Everything but `hello` and `events.subscribe`, which belong to the connection.
pub(super) async fn perform(desk: &Desk, place: &Place, call: Call) -> Answer {
    if desk.draining.is_cancelled() && begins_work(&call) {
        return Err(RequestError::from(stopping()).into());
    }
    match call {
        Call::Hello(hello) => status::hello(desk, &hello),
        Call::EventsSubscribe(_) => Err(RpcError::new(
            code::INTERNAL,
            "events.subscribe belongs to the connection",
        )),
        Call::Status(_) => status::status(desk).await,
        Call::Metrics(_) => status::metrics(desk),
        Call::PlatformList(_) => status::platforms(desk),
        Call::PlatformExamine(wish) => status::examine(desk, &wish.platform).await,
        Call::AgentList(_) => agents::list(desk),
        Call::AgentTest(wish) => agents::test(desk, &wish.agent).await,
        Call::PairList(_) => pairing::list(desk).await,
        Call::PairApprove(wish) => pairing::approve(desk, &wish.code).await,
        Call::PairRevoke(wish) => pairing::revoke(desk, wish).await,
        Call::SessionList(wish) => sessions::list(desk, wish).await,
        Call::SessionShow(wish) => sessions::show(desk, &wish.session),
        Call::SessionTranscript(wish) => sessions::transcript(desk, wish).await,
        Call::SessionSearch(wish) => sessions::search(desk, wish).await,
        Call::SessionRename(wish) => sessions::rename(desk, wish).await,
        Call::SessionResume(wish) => sessions::resume(desk, wish).await,
        Call::ChatOpen(wish) => chat::open(desk, place, wish).await,
        Call::ChatSay(wish) => chat::say(desk, place, wish).await,
        Call::ChatAnswer(wish) => chat::answer_question(desk, place, wish).await,
        Call::ChatStop(_) => chat::stop(place).await,
        Call::ChatLeave(_) => chat::leave(desk, place).await,
        Call::HandoffRequest(wish) => handoffs::request(desk, wish).await,
        Call::HandoffWait(wish) => {
            ended(desk, wish.id).await?;
            show(desk, wish.id)
        }
        Call::HandoffList(wish) => handoffs::list(desk, wish).await,
        Call::HandoffShow(wish) => handoffs::show(desk, wish.id),
        Call::HandoffCancel(wish) => handoffs::cancel(desk, wish.id).await,
        Call::HandoffRetry(wish) => handoffs::retry(desk, wish.id).await,
        Call::LocalThreads(_) => local::threads(desk).await,
        Call::LocalRead(wish) => local::read(desk, wish).await,
        Call::LocalSay(wish) => local::say(desk, wish).await,
    }
}

/// Whether it sets something going that goes on behind the answer, or that the answer waits for.
fn begins_work(call: &Call) -> bool {
    matches!(
        call,
        Call::AgentTest(_)
            | Call::ChatOpen(_)
            | Call::ChatSay(_)
            | Call::HandoffRequest(_)
            | Call::HandoffRetry(_)
            | Call::LocalSay(_)
    )
}

/// The most rows that a listing returns.
pub(super) const LONGEST_LIST: usize = 500;
pub(super) const USUAL_LIST: usize = 20;

pub(super) fn answer(view: &impl Serialize) -> Answer {
    to_raw_value(view).map_err(|e| RpcError::new(code::INTERNAL, e.to_string()))
}

fn not_found(what: &str, hint: &str) -> RpcError {
    RpcError::new(code::NOT_FOUND, format!("there is no {what}"))
        .with_data("not_found", Some(hint.to_owned()))
}

fn refused(kind: &str, message: impl Into<String>, hint: &str) -> RpcError {
    RpcError::new(code::REFUSED, message).with_data(kind, Some(hint.to_owned()))
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let kind = if error.is_transient() {
            "database_busy"
        } else {
            "database"
        };
        RpcError::new(code::INTERNAL, error.to_string()).with_data(kind, None)
    }
}

impl From<RequestError> for RpcError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Store(e) => e.into(),
            RequestError::Refused(refusal) => {
                RpcError::new(code::REFUSED, refusal.message).with_data(refusal.kind, refusal.hint)
            }
        }
    }
}
