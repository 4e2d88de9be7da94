//! Invoked by `hermesctl sessions`.
//!
//! Lists, shows, searches and renames sessions. `export.rs` exports one.

use std::path::PathBuf;

use serde_json::Value;

use super::backend::{Backend, Target};
use super::export::{self, ExportFormat};
use super::output::{BOLD, Column, FAINT, Output};
use super::{CliError, pick};
use crate::clock;
use crate::domain::announced_handoff;
use crate::domain::transcript::Content;
use crate::protocol::{
    MessageView, SessionList, SessionRename, SessionSearch, SessionView, TranscriptView,
    TranscriptWish,
};

#[derive(Debug, clap::Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub verb: Option<SessionsVerb>,
}

#[derive(Debug, clap::Subcommand)]
pub enum SessionsVerb {
    /// List sessions, the newest first (the default).
    List {
        /// Only sessions of this source: cli, tui, acp, or a platform.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Only sessions that have not ended.
        #[arg(long)]
        live: bool,
        /// The maximum number of sessions.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Show one session.
    Show {
        /// Title or id, a part of the title, the beginning or the end of the id, or last [default: you pick one].
        session: Option<String>,
    },
    /// Show the messages of a session.
    Transcript {
        /// Title or id, a part of the title, the beginning or the end of the id, or last [default: you pick one].
        session: Option<String>,
        /// Only this many messages, counted from the end.
        #[arg(long, value_name = "N")]
        last: Option<usize>,
    },
    /// Find messages that contain all words.
    #[command(
        after_help = "Quote a phrase. End a word with * to find all words that begin with it.\n\nExamples:\n  hermesctl sessions search parser \"off by one\"\n  hermesctl sessions search 'deploy*' --limit 5"
    )]
    Search {
        /// Words, or phrases in quotes.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// The maximum number of messages.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Export a whole session as Markdown or JSON.
    #[command(
        after_help = "Examples:\n  hermesctl sessions export \"Fix the parser\" > parser.md\n  hermesctl sessions export 20260131 --format json --output parser.json"
    )]
    Export {
        /// Title or id, a part of the title, the beginning or the end of the id, or last [default: you pick one].
        session: Option<String>,
        /// The format.
        #[arg(long, value_enum, default_value_t = ExportFormat::Markdown)]
        format: ExportFormat,
        /// A new file [default: standard output].
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Change the title of a session. An empty title removes it.
    Rename {
        /// Title or id, a part of the title, the beginning or the end of the id, or last.
        session: String,
        /// The new title: unique, at most 100 characters.
        title: String,
    },
}

pub(super) async fn run(target: &Target, out: &Output, args: SessionsArgs) -> Result<(), CliError> {
    let is_named = match &args.verb {
        Some(
            SessionsVerb::Show { session }
            | SessionsVerb::Transcript { session, .. }
            | SessionsVerb::Export { session, .. },
        ) => session.is_some(),
        _ => true,
    };
    pick::check(out, is_named, "a session", "see `hermesctl sessions`")?;
    let backend = target.open_to_read().await?;
    let backend = backend.as_ref();
    match args.verb.unwrap_or(SessionsVerb::List {
        source: None,
        live: false,
        limit: 20,
    }) {
        SessionsVerb::List {
            source,
            live,
            limit,
        } => list(backend, out, source, live, limit).await,
        SessionsVerb::Show { session } => {
            show(backend, out, pick::session(backend, out, session).await?).await
        }
        SessionsVerb::Transcript { session, last } => {
            let session = pick::session(backend, out, session).await?;
            transcript(backend, out, session, last).await
        }
        SessionsVerb::Search { words, limit } => search(backend, out, words, limit).await,
        SessionsVerb::Export {
            session,
            format,
            output,
        } => {
            let session = pick::session(backend, out, session).await?;
            export::run(backend, out, &session, format, output.as_deref()).await
        }
        SessionsVerb::Rename { session, title } => rename(backend, out, session, title).await,
    }
}

pub(super) async fn list(
    backend: &dyn Backend,
    out: &Output,
    source: Option<String>,
    live: bool,
    limit: usize,
) -> Result<(), CliError> {
    let wish = SessionList {
        source,
        live,
        limit: Some(limit),
    };
    let sessions = backend.sessions(wish).await?;
    out.value(&sessions)?;
    if sessions.is_empty() {
        return out.line("No sessions.");
    }
    let now = clock::now();
    let row = |s: &SessionView| {
        let state = match (&s.handoff_state, s.ended_at) {
            (Some(state), _) if state == "pending" || state == "running" => {
                format!("handoff {state}")
            }
            (_, Some(_)) => format!("ended: {}", s.end_reason.as_deref().unwrap_or("?")),
            (_, None) => "live".into(),
        };
        let title = match pick::called(s) {
            id if id == s.id => "",
            called => called,
        };
        vec![
            s.id.clone(),
            title.to_owned(),
            s.source.clone(),
            s.message_count.to_string(),
            format!("{} ago", clock::age(now - s.started_at)),
            state,
        ]
    };
    out.table(
        &[
            Column::whole("ID"),
            Column::text("TITLE"),
            Column::whole("SOURCE").goes(2),
            Column::whole("MESSAGES").goes(3),
            Column::whole("STARTED").goes(1),
            Column::text("STATE").goes(4),
        ],
        &sessions.iter().map(row).collect::<Vec<_>>(),
    )
}

async fn show(backend: &dyn Backend, out: &Output, name: String) -> Result<(), CliError> {
    let session = backend.session(&name).await?;
    out.value(&session)?;
    out.line(out.styled(BOLD, pick::called(&session)))?;
    out.line(format!("id        {}", session.id))?;
    out.line(format!("source    {}", session.source))?;
    out.line(format!("started   {}", clock::readable(session.started_at)))?;
    if let Some(at) = session.ended_at {
        out.line(format!(
            "ended     {} ({})",
            clock::readable(at),
            session.end_reason.as_deref().unwrap_or("no reason")
        ))?;
    }
    out.line(format!("messages  {}", session.message_count))?;
    for (name, value) in [
        ("model", &session.model),
        ("works in", &session.cwd),
        ("bound to", &session.session_key),
        ("handoff", &session.handoff_state),
        ("to", &session.handoff_platform),
        ("error", &session.handoff_error),
    ] {
        if let Some(value) = value {
            out.line(format!("{name:<9} {value}"))?;
        }
    }
    Ok(())
}

async fn transcript(
    backend: &dyn Backend,
    out: &Output,
    name: String,
    last: Option<usize>,
) -> Result<(), CliError> {
    let wish = TranscriptWish {
        session: name,
        last,
        ..TranscriptWish::default()
    };
    let whole = whole(backend, &wish).await?;
    for message in &whole.messages {
        print(out, message)?;
    }
    out.value(&whole)
}

/// Fetches all pages of the requested messages.
pub(super) async fn whole(
    backend: &dyn Backend,
    wish: &TranscriptWish,
) -> Result<TranscriptView, CliError> {
    let mut pages: Vec<TranscriptView> = Vec::new();
    let mut wanted = wish.last;
    loop {
        let before = pages
            .last()
            .and_then(|page| page.messages.iter().map(|m| m.id).min());
        let wish = TranscriptWish {
            last: wanted,
            before,
            ..wish.clone()
        };
        let page = backend.transcript(wish).await?;
        let (got, earlier) = (page.messages.len(), page.earlier);
        pages.push(page);
        wanted = wanted.map(|n| n.saturating_sub(got));
        // One page fits into a frame. Continue until all requested messages are here.
        if !earlier || got == 0 || wanted == Some(0) {
            break;
        }
    }
    let session = pages[0].session.clone();
    let earlier = pages.last().is_some_and(|page| page.earlier);
    let messages: Vec<MessageView> = pages
        .into_iter()
        .rev()
        .flat_map(|page| page.messages)
        .collect();
    Ok(TranscriptView {
        session,
        messages,
        earlier,
    })
}

async fn search(
    backend: &dyn Backend,
    out: &Output,
    words: Vec<String>,
    limit: usize,
) -> Result<(), CliError> {
    let limit = Some(limit);
    let hits = backend.search(SessionSearch { words, limit }).await?;
    out.value(&hits)?;
    if hits.is_empty() {
        return out.line("Nothing found.");
    }
    for hit in &hits {
        let name = hit.title.as_deref().unwrap_or(&hit.session);
        out.line(format!(
            "{} {}",
            out.styled(BOLD, name),
            out.styled(
                FAINT,
                &format!(
                    "{}, {}, {}",
                    hit.session,
                    hit.display_kind
                        .as_deref()
                        .map_or(hit.role.as_str(), |_| "note"),
                    clock::readable(hit.timestamp)
                )
            )
        ))?;
        let snippet: Vec<&str> = hit.snippet.split_whitespace().collect();
        out.line(format!("  {}", highlighted(out, &snippet.join(" "))))?;
    }
    Ok(())
}

/// Shows matches in bold, or between their marks if there are no colours.
fn highlighted(out: &Output, snippet: &str) -> String {
    let mut text = String::new();
    let mut rest = snippet;
    while let Some((before, marked)) = rest.split_once(">>>") {
        let (found, after) = marked.split_once("<<<").unwrap_or((marked, ""));
        text.push_str(before);
        match out.styled(BOLD, found) {
            plain if plain == found => text.push_str(&format!(">>>{found}<<<")),
            bold => text.push_str(&bold),
        }
        rest = after;
    }
    text + rest
}

async fn rename(
    backend: &dyn Backend,
    out: &Output,
    session: String,
    title: String,
) -> Result<(), CliError> {
    let renamed = backend.rename(SessionRename { session, title }).await?;
    out.value(&renamed)?;
    match &renamed.title {
        Some(title) => out.line(format!("{} is now called \"{title}\".", renamed.id)),
        None => out.line(format!("{} no longer has a title.", renamed.id)),
    }
}

fn print(out: &Output, message: &MessageView) -> Result<(), CliError> {
    if let Some(line) = handoff_line(message) {
        return out.line(out.styled(FAINT, &line));
    }
    let (who, text) = in_words(message);
    out.line(format!(
        "{} {}",
        out.styled(BOLD, &who),
        out.styled(FAINT, &clock::readable(message.timestamp))
    ))?;
    text.lines()
        .try_for_each(|line| out.line(format!("  {line}")))
}

/// The author of a message, as people see it everywhere.
pub(super) fn author(role: &str) -> &str {
    match role {
        "user" => "You",
        "assistant" | "agent" => "Agent",
        role => role,
    }
}

/// The line that stands for the message to the agent that announces a handoff.
pub(super) fn handoff_line(message: &MessageView) -> Option<String> {
    let text = message.content.as_str()?;
    let platform = announced_handoff(text).filter(|_| message.role == "user")?;
    let note = text.split_once("\nThe user's note: ");
    let note = note.map(|(_, note)| format!(": {}", note.trim()));
    Some(format!(
        "— moved to {platform}{} —",
        note.unwrap_or_default()
    ))
}

/// The author of a message that a program wrote in the role of the user.
pub(super) fn said_by(message: &MessageView) -> String {
    let kind = message.display_kind.as_deref().unwrap_or_default();
    format!("note ({})", kind.replace('_', " "))
}

/// The author and the text of a message, with its tool calls.
pub(super) fn in_words(message: &MessageView) -> (String, String) {
    let who = match (&message.tool_name, message.role.as_str()) {
        (_, "user") if message.display_kind.is_some() => said_by(message),
        (Some(tool), "tool") => format!("tool {tool}"),
        (_, role) => author(role).to_owned(),
    };
    let text = match &message.content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => Content::Parts(parts.clone()).plain(),
        _ => String::new(),
    };
    let calls = message.tool_calls.iter().map(|call| {
        let function = &call["function"];
        format!(
            "→ {} {}",
            function["name"].as_str().unwrap_or("tool"),
            function["arguments"].as_str().unwrap_or_default()
        )
    });
    let said = Some(text).filter(|text| !text.is_empty());
    let lines: Vec<String> = said.into_iter().chain(calls).collect();
    (who, lines.join("\n"))
}
