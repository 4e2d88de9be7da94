//! `hermesctl resume` where nobody goes on talking: a session comes home, and that is told.

use super::CliError;
use super::output::Output;
use crate::domain::RefusalKind;
use crate::protocol::ResumedView;
use crate::sessions::{self, Refusal, RequestError, turn_elsewhere};
use crate::store::{Store, StoreError};
use crate::views;

/// The same without a daemon; the chat gets its note from the next one that starts.
pub(super) async fn without_daemon(
    store: &Store,
    name: Option<String>,
) -> Result<ResumedView, CliError> {
    let session = match &name {
        Some(name) => sessions::resolve(store, name)?,
        None => sessions::handed_off(store).await?,
    };
    let refuse = |kind, message| {
        CliError::from(RequestError::Refused(Refusal {
            kind,
            message,
            hint: Some("wait for its end".into()),
        }))
    };
    if let Some(what) = turn_elsewhere(store, &session.id)? {
        let message = format!("\"{}\" is busy: {what}", session.label());
        return Err(refuse(RefusalKind::TurnInProgress, message));
    }
    let departure = match store.take_home(&session.id).await {
        Ok(departure) => departure,
        Err(StoreError::Conflict(reason)) => return Err(refuse(RefusalKind::InFlight, reason)),
        Err(error) => return Err(error.into()),
    };
    let session = sessions::resolve(store, &session.id)?;
    Ok(ResumedView {
        session: views::session(&session),
        came_from: departure.map(|departure| departure.from.platform),
    })
}

pub(super) fn report(out: &Output, resumed: &ResumedView) -> Result<(), CliError> {
    out.value(resumed)?;
    let session = &resumed.session;
    let name = session.title.as_deref().unwrap_or(&session.id);
    match &resumed.came_from {
        Some(platform) => out.line(format!("\"{name}\" is back from {platform}."))?,
        None => out.line(format!("\"{name}\" was not on a chat."))?,
    }
    out.line(format!(
        "Go on with:  hermesctl chat --resume {}",
        session.id
    ))
}
