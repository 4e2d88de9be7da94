//! `hermesctl resume` where nobody goes on talking: a session comes home, and that is told.

use super::CliError;
use super::output::Output;
use crate::protocol::ResumedView;

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
