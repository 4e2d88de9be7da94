//! Requests a handoff. Each refusal comes at once and names its remedy.

use super::pipeline::unavailable;
use crate::domain::Session;
use crate::domain::{Handoff, RefusalKind, RequestedVia};
use crate::platform::{Availability, Platforms};
use crate::sessions::{
    ChosenBy, RequestError, TerminalNames, refuse, resolve, resolve_unnamed, turn_elsewhere,
};
use crate::store::{BusyElsewhere, Store, StoreError};

/// The longest note, in characters.
const LONGEST_NOTE: usize = 4000;

#[derive(Debug, Clone, Default)]
pub struct HandoffWish {
    pub platform: String,
    /// Id, title or beginning of an id. `None`: the session is chosen from the terminal of the client.
    pub session: Option<String>,
    pub note: Option<String>,
    /// The terminal of the client.
    pub tty: Option<String>,
    /// Hermes' names for that terminal.
    pub terminal: TerminalNames,
    /// Waits for the end of a turn in progress, instead of refusing.
    pub after_turn: bool,
    /// Ignores signs of a turn in another program. A turn with a lease is still refused.
    pub force: bool,
    /// Takes the place of another session that was handed off to a chat without threads.
    pub replace: bool,
}

/// Checks the request and writes the pending row. `is_busy` says whether a turn of a session is in progress here. Also
/// returns how the session was chosen, if `wish` names none.
pub async fn request(
    store: &Store,
    platforms: &Platforms,
    is_busy: impl Fn(&str) -> Result<bool, StoreError>,
    wish: &HandoffWish,
    via: RequestedVia,
) -> Result<(Handoff, Option<ChosenBy>), RequestError> {
    check_platform(platforms, &wish.platform)?;
    if wish
        .note
        .as_ref()
        .is_some_and(|n| n.chars().count() > LONGEST_NOTE)
    {
        return Err(refuse(
            RefusalKind::NoteTooLong,
            format!("the note is longer than {LONGEST_NOTE} characters"),
            "shorten it; the agent gets the whole conversation in any case",
        ));
    }
    let (session, chosen_by) = match &wish.session {
        Some(name) => (resolve(store, name)?, None),
        None => {
            let (session, by) = resolve_unnamed(store, wish.tty.as_deref(), &wish.terminal).await?;
            (session, Some(by))
        }
    };
    if let Some(state @ ("pending" | "running")) = session.handoff_state.as_deref() {
        return Err(in_flight(format!(
            "a handoff of {} is already {state}",
            session.id
        )));
    }
    if !wish.after_turn {
        check_idle(store, is_busy, &session, wish.force)?;
    }
    if !wish.replace {
        check_place(store, platforms, &wish.platform, &session).await?;
    }
    let note = wish.note.as_deref();
    match store
        .request_handoff(&session.id, &wish.platform, note, via, wish.after_turn)
        .await
    {
        Ok(handoff) => Ok((handoff, chosen_by)),
        Err(StoreError::Conflict(reason)) => Err(in_flight(reason)),
        Err(e) => Err(e.into()),
    }
}

/// Refuses while a turn is in progress, here or in another program.
fn check_idle(
    store: &Store,
    is_busy: impl Fn(&str) -> Result<bool, StoreError>,
    session: &Session,
    force: bool,
) -> Result<(), RequestError> {
    let name = session.label();
    if is_busy(&session.id)? {
        return Err(refuse(
            RefusalKind::TurnInProgress,
            format!("the agent is in the middle of a turn of \"{name}\""),
            "ask again when it has answered, or use --after-turn",
        ));
    }
    match turn_elsewhere(store, &session.id)? {
        Some(BusyElsewhere::Turn(by)) => Err(refuse(
            RefusalKind::TurnInProgress,
            format!("another program is in the middle of a turn of \"{name}\": {by}"),
            "ask again when it has answered, or use --after-turn; \
             the turn of a program that is gone ends within five minutes",
        )),
        Some(BusyElsewhere::Seems(what)) if !force => Err(refuse(
            RefusalKind::TurnInProgress,
            format!("another program seems to be in the middle of a turn of \"{name}\": {what}"),
            "ask again when it has answered, or use --after-turn; \
             if that program is gone, --force hands off at once",
        )),
        _ => Ok(()),
    }
}

/// Refuses if another session was handed off to the home chat itself and is there. A chat without threads is on one
/// session at a time.
async fn check_place(
    store: &Store,
    platforms: &Platforms,
    platform: &str,
    session: &Session,
) -> Result<(), RequestError> {
    let Some(home) = platforms.home(platform) else {
        return Ok(());
    };
    let there = store.handed_off_there(platform, &home.chat_id, &session.id);
    match there.await? {
        None => Ok(()),
        Some(there) => Err(refuse(
            RefusalKind::ChatTaken,
            format!(
                "the chat on {platform} has no threads, and \"{}\" is there now",
                there.label()
            ),
            format!(
                "--replace takes its place; `hermesctl resume {}` brings it back first",
                there.id
            ),
        )),
    }
}

fn in_flight(message: String) -> RequestError {
    refuse(
        RefusalKind::InFlight,
        message,
        "see `hermesctl handoffs`; `hermesctl handoffs cancel ID` stops it",
    )
}

fn check_platform(platforms: &Platforms, name: &str) -> Result<(), RequestError> {
    let availability = platforms.availability(name);
    let message = unavailable(name, &availability);
    match availability {
        Availability::Up | Availability::Connecting(_) => Ok(()),
        Availability::Unknown => Err(refuse(
            RefusalKind::UnknownPlatform,
            message,
            "see `hermesctl platforms`",
        )),
        Availability::Off(_) => Err(refuse(
            RefusalKind::PlatformOff,
            message,
            "see `hermesctl platforms`",
        )),
        Availability::NoHome => Err(refuse(
            RefusalKind::NoHomeChannel,
            message,
            "see `hermesctl platforms`",
        )),
    }
}
