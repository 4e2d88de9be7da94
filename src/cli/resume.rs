//! Invoked by `hermesctl resume`.
//!
//! Brings a session back from its chat and, in a terminal, continues it.

use super::backend::Target;
use super::output::{FAINT, Output};
use super::{CliError, chat};
use crate::protocol::ResumedView;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hermesctl resume\n  hermesctl resume \"Fix the parser\"\n  hermesctl resume 20260131 --no-chat"
)]
pub struct ResumeArgs {
    /// Id, beginning of an id, or title [default: the only session that was handed off].
    pub session: Option<String>,
    /// Only bring it back, do not open it here.
    #[arg(long)]
    pub no_chat: bool,
}

pub(super) async fn run(target: &Target, out: &Output, args: ResumeArgs) -> Result<(), CliError> {
    let (config, backend) = target.open().await?;
    let resumed = backend.resume(args.session).await?;
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
    let name = session.title.as_deref().unwrap_or(&session.id);
    match &resumed.came_from {
        Some(platform) => out.line(format!("\"{name}\" is back from {platform}."))?,
        None => out.line(format!("\"{name}\" was not in a chat."))?,
    }
    out.line(format!(
        "Continue with:  hermesctl chat --resume {}",
        session.id
    ))
}
