//! `cargo bench`: the speed and size of the real, release-built hermesd, held against the budget of the design.
//!
//! This file holds the arguments and the scale. `home` makes databases to measure on, `daemon` runs the process, `drive`
//! does something to it and takes the time, `measure` says in which order, `budget` what is allowed, `report` shows it.
//!
//! `--quick` measures at a smaller scale, to see that everything works; `--json PATH` says where the numbers go besides
//! the terminal (`target/bench.json`). Being over the budget is no failure: the exit code is 0 when all of it worked.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a table for people is what this program is for

mod budget;
mod daemon;
mod drive;
mod home;
mod measure;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use report::Report;

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How much of everything. The budget is meant for [`FULL`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Sessions that the big database holds besides those that are handed off.
    pub(crate) sessions: usize,
    /// Handoffs that the journal of another remembers.
    pub(crate) handoffs: usize,
    /// Messages of the long transcript, and how often it is loaded; the live session is looked for as often.
    pub(crate) messages: usize,
    pub(crate) loads: usize,
    pub(crate) starts: usize,
    pub(crate) requests: usize,
    pub(crate) foreign: usize,
    pub(crate) burst: usize,
    /// Bursts of each kind; their median counts.
    pub(crate) bursts: usize,
    pub(crate) idle: Duration,
}

const FULL: Scale = Scale {
    sessions: 1_000_000,
    handoffs: 100_000,
    messages: 10_000,
    loads: 20,
    starts: 20,
    requests: 500,
    foreign: 200,
    burst: 1_000,
    bursts: 3,
    idle: Duration::from_secs(10),
};

const QUICK: Scale = Scale {
    sessions: 50_000,
    handoffs: 5_000,
    loads: 5,
    starts: 3,
    requests: 50,
    foreign: 20,
    burst: 200,
    bursts: 1,
    idle: Duration::from_secs(1),
    ..FULL
};

struct Args {
    quick: bool,
    json: PathBuf,
}

fn main() -> ExitCode {
    let outcome = arguments(std::env::args().skip(1)).and_then(|args| run(&args));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(given: impl Iterator<Item = String>) -> Outcome<Args> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let mut args = Args {
        quick: false,
        json: target.unwrap_or(Path::new("target")).join("bench.json"),
    };
    let mut given = given;
    while let Some(argument) = given.next() {
        match argument.as_str() {
            // cargo says this to every benchmark.
            "--bench" => {}
            "--quick" => args.quick = true,
            "--json" => args.json = given.next().ok_or("--json wants a path")?.into(),
            other => {
                return Err(format!(
                    "unknown argument {other:?}: there are --quick and --json PATH"
                )
                .into());
            }
        }
    }
    Ok(args)
}

fn run(args: &Args) -> Outcome<()> {
    let scale = if args.quick { QUICK } else { FULL };
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: its numbers say nothing");
    }
    // One thread: an answer is seen by the task that waits for it without a detour over another thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let numbers = runtime.block_on(measure::all(&scale))?;
    let mut report = Report::new(&scale, args.quick);
    budget::compare(&mut report, &numbers);
    report.print();
    report.write(&args.json)?;
    println!("\nalso in {}", args.json.display());
    Ok(())
}
