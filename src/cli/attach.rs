//! Invoked by `hermesctl attach`.
//!
//! Prints the messages of a local chat, sends each line of the input, and prints the replies.

use std::io::IsTerminal;

use tokio::io::{AsyncBufReadExt, BufReader};

use super::backend::{Backend, Target};
use super::output::{self, BOLD, Column, FAINT, Output};
use super::{CliError, sessions};
use crate::client::{Client, News};
use crate::clock;
use crate::platform::local;
use crate::protocol::{
    Call, EventKind, EventsSubscribe, LocalMessageView, LocalRead, LocalSay, LocalThreadView,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It sends each line of standard input and prints each reply. End with Ctrl-D.\n\nExamples:\n  hermesctl attach local --list\n  hermesctl attach local/3\n  echo \"how far are we?\" | hermesctl attach local/3"
)]
pub struct AttachArgs {
    /// `local`, or `local/THREAD`.
    pub place: String,
    /// List the threads and exit.
    #[arg(long)]
    pub list: bool,
}

pub(super) async fn run(target: &Target, out: &Output, args: AttachArgs) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    let backend = backend.as_ref();
    let (platform, thread) = match args.place.split_once('/') {
        Some((platform, thread)) => (platform, Some(thread)),
        None => (args.place.as_str(), None),
    };
    let refuse = |message: String, hint: &str| CliError::Refused {
        message,
        hint: Some(hint.into()),
        kind: "bad_place".into(),
    };
    if platform != local::NAME {
        return Err(refuse(
            format!("cannot attach to {platform:?}: only the local platform supports it"),
            "use the app of the other platform",
        ));
    }
    if args.list {
        return list(backend, out).await;
    }
    let thread = match thread {
        None => None,
        Some(text) => Some(text.parse::<i64>().map_err(|_| {
            refuse(
                format!("{text:?} is not the number of a thread"),
                "see `hermesctl attach local --list`",
            )
        })?),
    };
    match backend.daemon() {
        Ok(client) => converse(client, out, thread).await,
        Err(_) => {
            let wish = LocalRead {
                thread,
                ..LocalRead::default()
            };
            for message in backend.local_messages(wish).await? {
                show(out, &message)?;
            }
            Err(CliError::NoDaemon {
                message: "no daemon is running: these are the stored messages, and you cannot send new ones".into(),
            })
        }
    }
}

async fn list(backend: &dyn Backend, out: &Output) -> Result<(), CliError> {
    let threads = backend.local_threads().await?;
    out.value(&threads)?;
    if threads.is_empty() {
        return out.line("No threads yet: `hermesctl handoff local` opens one.");
    }
    let row = |t: &LocalThreadView| {
        vec![
            t.id.to_string(),
            t.title.clone(),
            clock::readable(t.created_at),
        ]
    };
    out.table(
        &[
            Column::whole("THREAD"),
            Column::text("TITLE"),
            Column::whole("OPENED").goes(1),
        ],
        &threads.iter().map(row).collect::<Vec<_>>(),
    )
}

/// Sends each line of the input and prints the replies, until the input ends and every line has its reply.
pub(super) async fn converse(
    client: &Client,
    out: &Output,
    thread: Option<i64>,
) -> Result<(), CliError> {
    let _: serde_json::Value = client
        .call(Call::EventsSubscribe(EventsSubscribe {
            topics: vec!["local".into()],
            session: None,
        }))
        .await?;
    let past: Vec<LocalMessageView> = client
        .call(Call::LocalRead(LocalRead {
            thread,
            ..LocalRead::default()
        }))
        .await?;
    // The id of the agent's last message. Our own messages do not count: the reply to an earlier line may arrive later
    // with a smaller id.
    let mut last = 0;
    for message in &past {
        show(out, message)?;
        last = message.id;
    }
    let interactive = std::io::stdin().is_terminal() && !out.is_json();
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let (mut open, mut awaited) = (true, 0_usize);
    while open || awaited > 0 {
        if interactive && awaited == 0 {
            output::prompt("> ");
        }
        tokio::select! {
            line = input.next_line(), if open => match line {
                Ok(Some(line)) if line.trim().is_empty() => {}
                Ok(Some(line)) => {
                    let said: LocalMessageView = client.call(Call::LocalSay(LocalSay { thread, text: line })).await?;
                    if !interactive {
                        show(out, &said)?;
                    }
                    awaited += 1;
                }
                Ok(None) | Err(_) => open = false,
            },
            news = client.news() => match news {
                Some(News::Event(event)) => {
                    if let EventKind::LocalMessage { id, thread: place, author, text, .. } = event.event
                        && place == thread.map(|t| t.to_string()).unwrap_or_default()
                        && author == "agent"
                        && id > last
                    {
                        awaited = awaited.saturating_sub(1);
                        last = id;
                        show(out, &LocalMessageView { id, author, text, at: event.at })?;
                    }
                }
                Some(News::Missed(_)) => {
                    let missed = LocalRead { thread, after: last, limit: None };
                    let said = client.call::<Vec<LocalMessageView>>(Call::LocalRead(missed)).await?;
                    for message in said.into_iter().filter(|m| m.author == "agent") {
                        awaited = awaited.saturating_sub(1);
                        last = message.id;
                        show(out, &message)?;
                    }
                }
                None => return Err(CliError::NoDaemon { message: "the connection to the daemon was lost: your messages are stored, and will be answered later".into() }),
            },
        }
    }
    Ok(())
}

pub(super) fn show(out: &Output, message: &LocalMessageView) -> Result<(), CliError> {
    out.value(message)?;
    out.line(format!(
        "{} {}",
        out.styled(BOLD, sessions::author(&message.author)),
        out.styled(FAINT, &clock::readable(message.at))
    ))?;
    message
        .text
        .lines()
        .try_for_each(|line| out.line(format!("  {line}")))
}
