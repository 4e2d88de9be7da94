//! The command line of hermesd.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
   0  stopped cleanly
   1  a failure that a restart may fix
   2  the command line is wrong
  65  state.db cannot be used (foreign, damaged, read-only, or it rejects hermesd's writes)
  69  another daemon uses the home or the socket, or a Hermes gateway has taken over
  78  the configuration is wrong

Examples:
  hermesd                         serve ~/.hermes in the foreground
  hermesd --profile work          serve the home of a Hermes profile
  hermesd --home /srv/agent       serve another home
  hermesd --check-config          show the settings in effect and their sources
  hermesd demo                    show a handoff, on embedded defaults

The manual is hermesd(8).";

/// Moves live agent sessions from the terminal to chat apps and back.
#[derive(Debug, Parser)]
#[command(name = "hermesd", version, after_help = EXIT_CODES)]
pub struct Args {
    /// The home that holds state.db [default: $HERMES_HOME, $STATE_DIRECTORY, or the home of the profile].
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The Hermes profile to serve [default: the active profile of Hermes].
    #[arg(long, value_name = "NAME", conflicts_with = "home")]
    pub profile: Option<String>,
    /// The configuration file, which is optional [default: the usual places].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The path of the control socket.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print the settings in effect with their sources, and exit.
    #[arg(long)]
    pub check_config: bool,
    /// With --check-config: print JSON.
    #[arg(long, requires = "check_config")]
    pub json: bool,
    /// Rebuild the full-text index of the messages, and exit. Stop hermesd and Hermes first.
    #[arg(long, conflicts_with = "check_config")]
    pub rebuild_index: bool,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show a handoff in a temporary home: create a session, hand it off, read the thread.
    Demo,
    /// Diagnose platforms and agents for hermesctl if no daemon answers: JSON lines on standard input and output.
    #[command(hide = true)]
    Diagnose,
}
