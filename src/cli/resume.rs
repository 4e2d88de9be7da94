//! Invoked by `hermesctl resume`.
//!
//! Brings a session back from its chat and, in a terminal, continues it.

use super::backend::Target;
use super::output::{FAINT, Output};
use super::{CliError, chat, pick};
use crate::protocol::{ResumedView, SessionList};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hermesctl resume\n  hermesctl resume \"Fix the parser\"\n  hermesctl resume 20260131 --no-chat"
)]
pub struct ResumeArgs {
    /// Title or id, a part of the title, the beginning or the end of the id, or last [default: the only session that was
    /// handed off, or you pick one].
    pub session: Option<String>,
    /// Only bring it back, do not open it here.
    #[arg(long)]
    pub no_chat: bool,
}

pub(super) async fn run(target: &Target, out: &Output, args: ResumeArgs) -> Result<(), CliError> {
    let (config, backend) = target.open().await?;
    let resumed = match backend.resume(args.session.clone()).await {
        Err(CliError::Refused { kind, .. })
            if kind == "ambiguous_session" && args.session.is_none() && pick::can_ask(out) =>
        {
            let wish = SessionList {
                limit: Some(200),
                ..SessionList::default()
            };
            let mut away = backend.sessions(wish).await?;
            away.retain(|s| {
                s.handoff_state.as_deref() == Some("completed") && s.session_key.is_some()
            });
            let session = pick::one_session(out, "Which session do you bring back?", away)?;
            backend.resume(Some(session)).await?
        }
        resumed => resumed?,
    };
    let stay = args.no_chat || out.is_json() || !chat::is_terminal();
    if stay || backend.daemon().is_err() {
        return report(out, &resumed);
    }
    if let Some(platform) = &resumed.came_from {
        out.line(out.styled(FAINT, &format!("Brought back from {platform}.")))?;
    }
    let wish = chat::opening(Some(resumed.session.id))?;
    chat::converse(target, backend, &config, out, wish).await
}

fn report(out: &Output, resumed: &ResumedView) -> Result<(), CliError> {
    out.value(resumed)?;
    let session = &resumed.session;
    let name = pick::called(session);
    match &resumed.came_from {
        Some(platform) => out.line(format!("\"{name}\" is back from {platform}."))?,
        None => out.line(format!("\"{name}\" was not in a chat."))?,
    }
    out.line(format!(
        "Continue with:  hermesctl chat --resume {}",
        session.id
    ))
}
