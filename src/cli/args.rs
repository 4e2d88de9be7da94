//! The command line: the options of all verbs, and the list of verbs. Each verb has its own options beside it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use super::agents::AgentsArgs;
use super::attach::AttachArgs;
use super::chat::ChatArgs;
use super::complete::{CompleteArgs, CompletionsArgs};
use super::events::EventsArgs;
use super::handoff::HandoffArgs;
use super::handoffs::HandoffsArgs;
use super::logs::LogsArgs;
use super::pair::PairArgs;
use super::resume::ResumeArgs;
use super::sessions::SessionsArgs;
use super::setup::SetupArgs;
use crate::config::settings::parse_duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something unexpected went wrong
  2  the command line is wrong
  3  refused: nothing was changed, the message names the remedy
  4  the handoff failed and was rolled back, the agent gave no answer, setup failed, or doctor found a fault
  5  timed out: the handoff goes on in the background, or the platform did not come up during setup
  6  no daemon answers or accepts the request, or state.db does not exist

Examples:
  hermesctl chat
  hermesctl handoff local --session \"Fix the parser\"
  hermesctl resume \"Fix the parser\"
  hermesctl handoffs show 7
  hermesctl attach local/3
  hermesctl --json sessions list --live

The manual is hermesctl(1).";

/// Talks to hermesd: to the agent in the terminal, and to move the conversation to a chat and back.
#[derive(Debug, Parser)]
#[command(name = "hermesctl", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Args {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub verb: Verb,
}

/// The options that every verb takes.
#[derive(Debug, clap::Args)]
pub struct GlobalArgs {
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// The home that holds state.db [default: $HERMES_HOME, $STATE_DIRECTORY, else that of the profile].
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The Hermes profile to use [default: the one that `hermes profile use` chose].
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "home")]
    pub profile: Option<String>,
    /// The configuration file [default: the usual places].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The daemon's socket [default: that of the daemon that serves the home].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Talk to the agent in this terminal.
    Chat(ChatArgs),
    /// Bring a session home from the chat that has it, and go on with it here.
    Resume(ResumeArgs),
    /// Move a session to a chat platform and wait until it is there.
    Handoff(HandoffArgs),
    /// List, inspect, cancel and retry handoffs.
    Handoffs(HandoffsArgs),
    /// List sessions and read their transcripts.
    Sessions(SessionsArgs),
    /// Show the agents, or try one out.
    Agents(AgentsArgs),
    /// Let people talk to the agent from their chats, and see who may.
    Pair(PairArgs),
    /// Show the chat platforms and how they are doing.
    Platforms,
    /// Show what the daemon is doing.
    Status,
    /// Set a platform up: token, home channel, who may speak, and the service.
    Setup(SetupArgs),
    /// Look everything over, and say what to do about what is wrong.
    Doctor,
    /// Show what happened lately, or follow what happens now.
    Events(EventsArgs),
    /// Show what the daemon wrote to the journal, by way of journalctl.
    Logs(LogsArgs),
    /// Print the daemon's metrics in Prometheus' text format.
    Metrics,
    /// Read and write a chat of the embedded platform.
    Attach(AttachArgs),
    /// Print what makes a shell complete hermesctl's command line.
    Completions(CompletionsArgs),
    /// What the scripts of `completions` ask.
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
}

/// A time on the command line.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time such as 30s, 5m or 1h".to_owned())
}
