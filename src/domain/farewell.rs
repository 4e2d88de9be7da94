//! The messages in a chat whose conversation has moved.

use crate::domain::{NOWHERE, TERMINAL};

/// The note to a chat that a session leaves. `earlier`: the chat continues with the session that it had before.
pub fn farewell(here: &str, went_to: &str, earlier: bool) -> String {
    let moved = moved(here, went_to);
    if earlier {
        format!("{moved} This chat continues its earlier conversation.")
    } else {
        format!("{moved} Send /resume to bring it back here, or /new to begin another one here.")
    }
}

/// The note to a chat in which another session has taken the place of this one.
pub fn replaced(name: &str, id: &str) -> String {
    format!(
        "\"{name}\" was in this chat until now. It comes back here when the new conversation leaves. \
         In the terminal, hermesctl resume {id} continues it."
    )
}

/// The reply to a message in a chat that its session has left.
pub fn no_longer_here(here: &str, went_to: &str) -> String {
    format!(
        "{} Your message was not passed on. \
         Send /resume to bring the conversation back here, or /new to begin another one.",
        moved(here, went_to)
    )
}

fn moved(here: &str, went_to: &str) -> String {
    match went_to {
        TERMINAL => "This conversation moved back to the terminal.".to_owned(),
        NOWHERE => "This chat was closed, and its conversation has left it.".to_owned(),
        platform if platform == here => "This conversation moved to another thread.".to_owned(),
        platform => format!("This conversation moved to {platform}."),
    }
}
