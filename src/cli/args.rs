//! The command line of hermesctl: the global options and the list of verbs. The file of each verb defines its own
//! options.

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
  1  an unexpected error
  2  the command line is wrong
  3  refused: nothing was changed, and the message names the remedy
  4  the handoff failed and was rolled back, the agent did not answer, setup failed, or doctor found a fault
  5  timed out: the handoff continues in the background, or the platform did not come up during setup
  6  no daemon answers or accepts the request, or state.db does not exist

Examples:
  hermesctl chat
  hermesctl handoff local --session \"Fix the parser\"
  hermesctl resume \"Fix the parser\"
  hermesctl handoffs show 7
  hermesctl attach local/3
  hermesctl --json sessions list --live

The manual is hermesctl(1).";

/// Controls hermesd: talk to the agent in the terminal, and move the session to a chat and back.
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
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// The home that holds state.db [default: $HERMES_HOME, $STATE_DIRECTORY, or the home of the profile].
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The Hermes profile to use [default: the active profile of Hermes].
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "home")]
    pub profile: Option<String>,
    /// The configuration file [default: the usual places].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The socket of the daemon [default: the socket of the daemon that serves the home].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Talk to the agent in this terminal.
    Chat(ChatArgs),
    /// Bring a session back from its chat and continue it here.
    Resume(ResumeArgs),
    /// Move a session to a chat platform and wait until it is there.
    Handoff(HandoffArgs),
    /// List, inspect, cancel and retry handoffs.
    Handoffs(HandoffsArgs),
    /// List sessions and read their transcripts.
    Sessions(SessionsArgs),
    /// List the agents, or test one.
    Agents(AgentsArgs),
    /// List, approve and revoke the people who may talk to the agent.
    Pair(PairArgs),
    /// Show the chat platforms and their states.
    Platforms,
    /// Show the daemon, its work and its platforms.
    Status,
    /// Set up a platform: token, home channel, access, and the service.
    Setup(SetupArgs),
    /// Let the daemon read its configuration again, and show what changed.
    Reload,
    /// Check the installation, and show the remedy for each fault.
    Doctor,
    /// Show recent events, or follow new ones.
    Events(EventsArgs),
    /// Show the daemon's log in the journal. It runs journalctl.
    Logs(LogsArgs),
    /// Print the daemon's metrics in Prometheus' text format.
    Metrics,
    /// Read and write a chat of the embedded platform.
    Attach(AttachArgs),
    /// Print the completion script of a shell.
    Completions(CompletionsArgs),
    /// Answers the scripts of `completions`.
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
}

/// Parses a time on the command line.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "not a time such as 30s, 5m or 1h".to_owned())
}
