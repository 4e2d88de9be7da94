//! Lets a person choose from a list: arrow keys, and a filter as you type. Only on a terminal, and never with `--json`.

use std::io::IsTerminal;

use dialoguer::FuzzySelect;
use dialoguer::console::Term;
use dialoguer::theme::{ColorfulTheme, SimpleTheme, Theme};
use nix::sys::signal::{SigSet, Signal};

use super::CliError;
use super::backend::Backend;
use super::output::{Output, is_dumb};
use super::table::cut;
use super::visible::in_one_line;
use crate::clock;
use crate::protocol::{HandoffList, HandoffView, SessionList, SessionView};

/// The most entries of a list.
const MOST: usize = 200;
/// The cells that a picker needs besides an entry.
const MARGIN: usize = 4;

/// Whether there is a person to ask.
pub(super) fn can_ask(out: &Output) -> bool {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    !out.is_json() && !is_dumb() && is_terminal && std::io::stdout().is_terminal()
}

/// The entry that the person chooses. Esc and Ctrl-C end the command.
pub(super) fn pick(out: &Output, question: &str, entries: &[String]) -> Result<usize, CliError> {
    let width = out.width().saturating_sub(MARGIN).max(1);
    let shown: Vec<String> = entries
        .iter()
        .map(|entry| cut(&in_one_line(entry), width))
        .collect();
    let colourful = ColorfulTheme::default();
    let theme: &dyn Theme = match out.has_colour() {
        true => &colourful,
        false => &SimpleTheme,
    };
    // Ctrl-C ends the program only when the cursor is back.
    let interrupts = SigSet::from(Signal::SIGINT);
    let _ = interrupts.thread_block();
    let chosen = FuzzySelect::with_theme(theme)
        .with_prompt(question)
        .items(&shown)
        .default(0)
        .report(false)
        .interact_on_opt(&Term::stderr());
    if chosen.is_err() {
        let _ = Term::stderr().show_cursor();
    }
    let _ = interrupts.thread_unblock();
    match chosen {
        Ok(Some(at)) => Ok(at),
        Ok(None) => Err(nothing_chosen()),
        Err(dialoguer::Error::IO(error)) if error.kind() == std::io::ErrorKind::Interrupted => {
            Err(nothing_chosen())
        }
        Err(error) => Err(CliError::Other(format!("the terminal: {error}"))),
    }
}

fn nothing_chosen() -> CliError {
    CliError::Refused {
        message: "nothing was chosen, and nothing has changed".into(),
        hint: None,
        kind: "nothing_chosen".into(),
    }
}

/// Refuses a command that needs a name and has none, if there is nobody to ask.
pub(super) fn check(out: &Output, is_named: bool, what: &str, hint: &str) -> Result<(), CliError> {
    match is_named || can_ask(out) {
        true => Ok(()),
        false => Err(unnamed(what, hint)),
    }
}

/// The session that the command line names, else the one that the person picks.
pub(super) async fn session(
    backend: &dyn Backend,
    out: &Output,
    named: Option<String>,
) -> Result<String, CliError> {
    if let Some(name) = named {
        return Ok(name);
    }
    let wish = SessionList {
        limit: Some(MOST),
        ..SessionList::default()
    };
    let sessions = backend.sessions(wish).await?;
    one_session(out, "Which session?", sessions)
}

/// Lets the person pick one of these sessions.
pub(super) fn one_session(
    out: &Output,
    question: &str,
    mut sessions: Vec<SessionView>,
) -> Result<String, CliError> {
    if sessions.is_empty() {
        return Err(CliError::Refused {
            message: "There is no session yet. Start a conversation with `hermesctl chat`.".into(),
            hint: None,
            kind: "unknown_session".into(),
        });
    }
    let now = clock::now();
    let entries: Vec<String> = sessions
        .iter()
        .map(|session| {
            let age = clock::age(now - session.started_at);
            format!("{}  ({}, {age} ago)", called(session), session.source)
        })
        .collect();
    let at = pick(out, question, &entries)?;
    Ok(sessions.swap_remove(at).id)
}

/// What people call a session: its title, else its first words, else its id.
pub(super) fn called(session: &SessionView) -> &str {
    let title = session.title.as_deref();
    let title = title.filter(|title| !title.trim().is_empty());
    title
        .or(session.first_words.as_deref())
        .unwrap_or(&session.id)
}

/// The handoff that the command line names, else the one that the person picks among those in one of `states`.
pub(super) async fn handoff(
    backend: &dyn Backend,
    out: &Output,
    named: Option<i64>,
    states: &[&str],
) -> Result<i64, CliError> {
    if let Some(id) = named {
        return Ok(id);
    }
    let wish = HandoffList {
        limit: Some(MOST),
        ..HandoffList::default()
    };
    let mut handoffs = backend.handoffs(wish).await?;
    handoffs.retain(|handoff| states.is_empty() || states.contains(&handoff.state.as_str()));
    if handoffs.is_empty() {
        return Err(CliError::Refused {
            message: "there is no such handoff".into(),
            hint: Some("see `hermesctl handoffs`".into()),
            kind: "not_found".into(),
        });
    }
    let now = clock::now();
    let entry = |h: &HandoffView| {
        let age = clock::age(now - h.requested_at);
        format!(
            "{}  {} to {}, {}, {age} ago",
            h.id, h.session, h.platform, h.state
        )
    };
    let at = pick(
        out,
        "Which handoff?",
        &handoffs.iter().map(entry).collect::<Vec<_>>(),
    )?;
    Ok(handoffs[at].id)
}

pub(super) fn unnamed(what: &str, hint: &str) -> CliError {
    CliError::Usage {
        message: format!("name {what}"),
        hint: Some(hint.into()),
    }
}
