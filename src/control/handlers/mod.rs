//! Maps each request to its handler. Each file has the handlers of one group of verbs.

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

use crate::control::ControlContext;
use crate::domain::RefusalKind;
use crate::events::PublishedEvent;
use crate::protocol::{Call, RpcError, code};
use crate::sessions::{RequestError, stopping};
use crate::store::StoreError;

pub use agents::agent_views;
pub(super) use chat::TerminalSlot;
pub(super) use handoffs::{ended, show};
pub(super) use status::hello;

pub(super) type Answer = Result<Box<RawValue>, RpcError>;

pub(super) struct Subscription {
    pub(super) topics: Vec<String>,
    pub(super) session: Option<String>,
    pub(super) events: broadcast::Receiver<Arc<PublishedEvent>>,
}

/// Performs all requests except `events.subscribe`, which the connection handles.
pub(super) async fn perform(
    context: &ControlContext,
    terminal: &TerminalSlot,
    call: Call,
) -> Answer {
    if context.draining.is_cancelled() && begins_work(&call) {
        return Err(RequestError::from(stopping()).into());
    }
    match call {
        Call::Hello(hello) => status::hello(context, &hello),
        Call::EventsSubscribe(_) => Err(RpcError::new(
            code::INTERNAL,
            "the connection handles events.subscribe",
        )),
        Call::Status(_) => status::status(context).await,
        Call::Metrics(_) => status::metrics(context),
        Call::ConfigReload(_) => status::reload(context).await,
        Call::PlatformList(_) => status::platforms(context),
        Call::PlatformExamine(wish) => status::examine(context, &wish.platform).await,
        Call::AgentList(_) => agents::list(context),
        Call::AgentTest(wish) => agents::test(context, &wish.agent).await,
        Call::PairList(_) => pairing::list(context).await,
        Call::PairApprove(wish) => pairing::approve(context, &wish.code).await,
        Call::PairRevoke(wish) => pairing::revoke(context, wish).await,
        Call::SessionList(wish) => sessions::list(context, wish).await,
        Call::SessionShow(wish) => sessions::show(context, &wish.session),
        Call::SessionTranscript(wish) => sessions::transcript(context, wish).await,
        Call::SessionSearch(wish) => sessions::search(context, wish).await,
        Call::SessionRename(wish) => sessions::rename(context, wish).await,
        Call::SessionResume(wish) => sessions::resume(context, wish).await,
        Call::ChatOpen(wish) => chat::open(context, terminal, wish).await,
        Call::ChatSay(wish) => chat::say(context, terminal, wish).await,
        Call::ChatAnswer(wish) => chat::answer_question(context, terminal, wish).await,
        Call::ChatStop(_) => chat::stop(terminal).await,
        Call::ChatLeave(_) => chat::leave(context, terminal).await,
        Call::HandoffRequest(wish) => handoffs::request(context, wish).await,
        Call::HandoffWait(wish) => {
            ended(context, wish.id).await?;
            show(context, wish.id)
        }
        Call::HandoffList(wish) => handoffs::list(context, wish).await,
        Call::HandoffShow(wish) => handoffs::show(context, wish.id),
        Call::HandoffCancel(wish) => handoffs::cancel(context, wish.id).await,
        Call::HandoffRetry(wish) => handoffs::retry(context, wish.id).await,
        Call::LocalThreads(_) => local::threads(context).await,
        Call::LocalRead(wish) => local::read(context, wish).await,
        Call::LocalSay(wish) => local::say(context, wish).await,
    }
}

/// Whether the call begins work that a draining daemon refuses.
fn begins_work(call: &Call) -> bool {
    matches!(
        call,
        Call::AgentTest(_)
            | Call::ConfigReload(_)
            | Call::ChatOpen(_)
            | Call::ChatSay(_)
            | Call::HandoffRequest(_)
            | Call::HandoffRetry(_)
            | Call::LocalSay(_)
    )
}

/// The most rows that a list returns.
pub(super) const LONGEST_LIST: usize = 500;
pub(super) const USUAL_LIST: usize = 20;

pub(super) fn answer(view: &impl Serialize) -> Answer {
    to_raw_value(view).map_err(|e| RpcError::new(code::INTERNAL, e.to_string()))
}

fn not_found(what: &str, hint: &str) -> RpcError {
    RpcError::new(code::NOT_FOUND, format!("there is no {what}"))
        .with_data(RefusalKind::NotFound.as_str(), Some(hint.to_owned()))
}

fn refused(kind: RefusalKind, message: impl Into<String>, hint: &str) -> RpcError {
    RpcError::new(code::REFUSED, message).with_data(kind.as_str(), Some(hint.to_owned()))
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let kind = if error.is_transient() {
            RefusalKind::DatabaseBusy
        } else {
            RefusalKind::Database
        };
        RpcError::new(code::INTERNAL, error.to_string()).with_data(kind.as_str(), None)
    }
}

impl From<RequestError> for RpcError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Store(e) => e.into(),
            RequestError::Refused(refusal) => RpcError::new(code::REFUSED, refusal.message)
                .with_data(refusal.kind.as_str(), refusal.hint),
        }
    }
}
