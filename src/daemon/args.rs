//! The command line of hermesd, parsed without looking at anything else.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
   0  stopped cleanly
   1  something that a restart may mend
   2  the command line is wrong
  65  state.db cannot be used (foreign, damaged, read-only, or it refuses what hermesd writes)
  69  the home or the socket is in use by another daemon, or a Hermes gateway has taken over
  78  the configuration is wrong

Examples:
  hermesd                         serve ~/.hermes in the foreground
  hermesd --profile work          serve the home of a Hermes profile
  hermesd --home /srv/agent       serve another home
  hermesd --check-config          show what is in force, and from where
  hermesd demo                    see a handoff, on nothing but embedded defaults

The manual is hermesd(8).";

/// Moves live agent sessions from the terminal to chat apps and back.
#[derive(Debug, Parser)]
#[command(name = "hermesd", version, after_help = EXIT_CODES)]
pub struct Args {
    /// The home that holds state.db [default: $HERMES_HOME, $STATE_DIRECTORY, else that of the profile].
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// The Hermes profile to serve [default: the one that `hermes profile use` chose].
    #[arg(long, value_name = "NAME", conflicts_with = "home")]
    pub profile: Option<String>,
    /// The configuration file [default: the usual places; none is needed].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where to listen for hermesctl.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print the settings in force and where each came from, and exit.
    #[arg(long)]
    pub check_config: bool,
    /// With --check-config: print JSON.
    #[arg(long, requires = "check_config")]
    pub json: bool,
    /// Build the full-text index of the messages anew, and exit. Stop hermesd and Hermes first.
    #[arg(long, conflicts_with = "check_config")]
    pub rebuild_index: bool,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show the main job in a temporary home: seed a session, hand it off, read the thread.
    Demo,
    /// Diagnose platforms and agents for hermesctl where no daemon answers: JSON lines on standard input and output.
    #[command(hide = true)]
    Diagnose,
}
