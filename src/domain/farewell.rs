//! What a chat is told when its conversation goes elsewhere.

use crate::domain::TERMINAL;

/// The last words in a chat that a session leaves. `earlier`: the chat is on the conversation again that it had before.
pub fn farewell(here: &str, went_to: &str, earlier: bool) -> String {
    let moved = moved(here, went_to);
    if earlier {
        format!("{moved} This chat is on its earlier conversation again.")
    } else {
        format!("{moved} Say /resume to bring it here again, or /new to begin another one here.")
    }
}

/// The answer to whoever writes there all the same.
pub fn no_longer_here(here: &str, went_to: &str) -> String {
    format!(
        "{} Your message was not passed on. Say /resume to bring the conversation here again, or /new to begin another one.",
        moved(here, went_to)
    )
}

fn moved(here: &str, went_to: &str) -> String {
    match went_to {
        TERMINAL => "This conversation went back to the terminal.".to_owned(),
        platform if platform == here => "This conversation went on in another thread.".to_owned(),
        platform => format!("This conversation went on to {platform}."),
    }
}
