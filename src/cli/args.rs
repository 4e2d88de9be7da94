//! The command line, parsed without looking at anything else.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::config::settings::parse_duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something unexpected went wrong
  2  the command line is wrong
  3  refused: nothing was changed, the message names the remedy
  4  the handoff failed and was rolled back, or the agent gave no answer
  5  timed out: the handoff goes on in the background
  6  no daemon answers (or picked the request up)

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
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// The home that holds state.db [default: $HERMES_HOME, else that of the profile].
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
    #[command(subcommand)]
    pub verb: Verb,
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

#[derive(Debug, clap::Args)]
#[command(
    after_help = "In the conversation, /help lists the commands; Ctrl-C interrupts an answer, a second one leaves.\n\nExamples:\n  hermesctl chat\n  hermesctl chat --title \"Fix the parser\"\n  hermesctl chat --resume last\n  echo \"how far are we?\" | hermesctl chat --resume \"Fix the parser\""
)]
pub struct ChatArgs {
    /// Go on with this session: id, beginning of an id, title, or `last`. A chat that has it lets it go.
    #[arg(long, value_name = "NAME")]
    pub resume: Option<String>,
    /// A title for a new session.
    #[arg(long, value_name = "TITLE", conflicts_with = "resume")]
    pub title: Option<String>,
    /// Who is to answer in this session from now on: see `hermesctl agents`.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Somebody unknown who writes to the bot gets a code and tells it to you.\n\nExamples:\n  hermesctl pair\n  hermesctl pair approve K7QXM2PA\n  hermesctl pair revoke telegram 123456789"
)]
pub struct PairArgs {
    #[command(subcommand)]
    pub verb: Option<PairVerb>,
}

#[derive(Debug, Subcommand)]
pub enum PairVerb {
    /// Everybody who was let in, and those who ask for it (the default).
    List,
    /// Let in the person who got this code.
    Approve {
        /// As the bot gave it to them.
        code: String,
    },
    /// No longer let this person in.
    Revoke {
        /// Where they write.
        platform: String,
        /// The platform's id of the person, as `hermesctl pair` shows it.
        id: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Asks for what it needs; with --no-input the flags have to say it all. A token is never taken from the command line,\nwhere others could see it.\n\nExamples:\n  hermesctl setup\n  hermesctl setup --token-file ~/token\n  pass telegram | hermesctl setup --no-input --token-file - --home-channel 123456 --allow 123456"
)]
pub struct SetupArgs {
    /// The platform to set up.
    #[arg(default_value = "telegram", value_parser = ["telegram"])]
    pub platform: String,
    /// A file that holds the bot's token; `-` reads it from standard input.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<std::path::PathBuf>,
    /// The chat that handoffs go to, by its id; else it is found when somebody says /sethome there.
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub home_channel: Option<String>,
    /// Somebody who may talk to the agent, by their id; may be given several times.
    #[arg(long, value_name = "ID")]
    pub allow: Vec<String>,
    /// Remove a webhook of the bot, which takes all its messages. The program that set it gets none any more.
    #[arg(long)]
    pub remove_webhook: bool,
    /// Enable and start the user service.
    #[arg(long)]
    pub enable: bool,
    /// Ask nothing.
    #[arg(long)]
    pub no_input: bool,
}

#[derive(Debug, clap::Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    pub verb: Option<AgentsVerb>,
}

#[derive(Debug, Subcommand)]
pub enum AgentsVerb {
    /// All agents, and what those that are not ready lack (the default).
    List,
    /// Ask an agent one thing, and see how it answers.
    Test {
        /// Its name.
        agent: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hermesctl resume\n  hermesctl resume \"Fix the parser\"\n  hermesctl resume 20260131 --no-chat"
)]
pub struct ResumeArgs {
    /// Id, beginning of an id, or title [default: the only one that was handed off].
    pub session: Option<String>,
    /// Only bring it home; do not open it here.
    #[arg(long)]
    pub no_chat: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hermesctl handoff local\n  hermesctl handoff local --session 20260131_081500 --note \"on the train\"\n  hermesctl handoff local --no-wait --json"
)]
pub struct HandoffArgs {
    /// Where to: see `hermesctl platforms`.
    pub platform: String,
    /// Id, beginning of an id, or title [default: $HERMES_SESSION_ID, else the session of this terminal, else the only recent one].
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// A word for the agent on top of the transcript.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// If the agent is in the middle of a turn, wait for its end instead of refusing.
    #[arg(long)]
    pub wait: bool,
    /// Do not mind that another program seems to be in the middle of a turn. A turn that it holds by lease still counts.
    #[arg(long)]
    pub force: bool,
    /// Return as soon as the request is written.
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait for the end; after that it goes on in the background.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub timeout: Duration,
    /// Without a daemon: how long to wait for one to pick the request up before it is withdrawn.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    pub pickup_timeout: Duration,
}

#[derive(Debug, clap::Args)]
pub struct HandoffsArgs {
    #[command(subcommand)]
    pub verb: Option<HandoffsVerb>,
}

#[derive(Debug, Subcommand)]
pub enum HandoffsVerb {
    /// The newest first (the default).
    List {
        /// Only those of this session.
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        /// Only those that are not ended.
        #[arg(long)]
        in_flight: bool,
        /// How many at the most.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// One handoff with its stages and times.
    Show {
        /// Its number.
        id: i64,
    },
    /// Stop one that has not reached the chat yet; everything is put back.
    Cancel {
        /// Its number.
        id: i64,
    },
    /// Ask again for one that failed, and wait for it.
    Retry {
        /// Its number.
        id: i64,
        /// Return as soon as the request is written.
        #[arg(long)]
        no_wait: bool,
        /// How long to wait for the end.
        #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
        timeout: Duration,
    },
}

#[derive(Debug, clap::Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub verb: Option<SessionsVerb>,
}

#[derive(Debug, Subcommand)]
pub enum SessionsVerb {
    /// The newest first (the default).
    List {
        /// Only those from here: cli, tui, acp, or a platform.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Only those that have not ended.
        #[arg(long)]
        live: bool,
        /// How many at the most.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// One session.
    Show {
        /// Id, beginning of an id, or title.
        session: String,
    },
    /// What was said in a session.
    Transcript {
        /// Id, beginning of an id, or title.
        session: String,
        /// Only the last so many messages.
        #[arg(long, value_name = "N")]
        last: Option<usize>,
    },
    /// Find messages by their words.
    #[command(
        after_help = "All words have to be in the message; quote a phrase, and end a word with * to find what begins so.\n\nExamples:\n  hermesctl sessions search parser \"off by one\"\n  hermesctl sessions search 'deploy*' --limit 5"
    )]
    Search {
        /// Words, or phrases in quotes.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// How many at the most.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Write a session out, to read or to keep.
    #[command(
        after_help = "Examples:\n  hermesctl sessions export \"Fix the parser\" > parser.md\n  hermesctl sessions export 20260131 --format json --output parser.json"
    )]
    Export {
        /// Id, beginning of an id, or title.
        session: String,
        /// How to write it.
        #[arg(long, value_enum, default_value_t = ExportFormat::Markdown)]
        format: ExportFormat,
        /// A file that does not exist yet [default: standard output].
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Give a session another title; an empty one takes it away.
    Rename {
        /// Id, beginning of an id, or title.
        session: String,
        /// Up to a hundred characters; unique.
        title: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum ExportFormat {
    Json,
    Markdown,
}

#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// Go on with what happens from now on, until interrupted.
    #[arg(long, short)]
    pub follow: bool,
    /// Only events whose type begins so (handoff, turn, session, platform, local); may be given several times.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Vec<String>,
    /// How many past handoffs to tell of.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: usize,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Runs journalctl, and shows how. With --json it prints what journalctl does with --output=json.\n\nExamples:\n  hermesctl logs --session \"Fix the parser\"\n  hermesctl logs --handoff 7 --since 1h\n  hermesctl logs --platform telegram --follow"
)]
pub struct LogsArgs {
    /// Only lines about this session: id, beginning of an id, or title.
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Only lines about this handoff.
    #[arg(long, value_name = "ID")]
    pub handoff: Option<i64>,
    /// Only lines about this platform.
    #[arg(long, value_name = "NAME")]
    pub platform: Option<String>,
    /// Go on with what is written from now on, until interrupted.
    #[arg(long, short)]
    pub follow: bool,
    /// Only what is younger: a time ago such as 30s, 5m or 1h, or whatever journalctl takes.
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// The daemon is a service of this user [default: unless root asks, or only a system's daemon is there].
    #[arg(long, conflicts_with = "system")]
    pub user: bool,
    /// The daemon is a service of the system.
    #[arg(long)]
    pub system: bool,
    /// The name of the service [default: hermesd.service, for a named profile hermesd@NAME.service].
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// Only print the command.
    #[arg(long)]
    pub print_command: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Lines from standard input are sent, replies are printed as they come. End with Ctrl-D.\n\nExamples:\n  hermesctl attach local --list\n  hermesctl attach local/3\n  echo \"how far are we?\" | hermesctl attach local/3"
)]
pub struct AttachArgs {
    /// `local`, or `local/THREAD`.
    pub place: String,
    /// List the threads instead.
    #[arg(long)]
    pub list: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  source <(hermesctl completions bash)\n  hermesctl completions zsh > ~/.zfunc/_hermesctl\n  hermesctl completions fish > ~/.config/fish/completions/hermesctl.fish"
)]
pub struct CompletionsArgs {
    /// Which shell.
    pub shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, clap::Args)]
pub struct CompleteArgs {
    pub shell: Shell,
    /// From bash: the line up to the cursor, and what it calls the word there. From others: the words, the last up to the cursor.
    #[arg(last = true)]
    pub words: Vec<String>,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time such as 30s, 5m or 1h".to_owned())
}
