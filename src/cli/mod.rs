//! The control program hermesctl: parses the arguments and runs one verb. Each verb has its own file or folder.

mod agents;
mod args;
mod attach;
mod backend;
mod chat;
mod complete;
pub mod demo;
mod diagnose_process;
mod doctor;
mod error;
mod events;
mod export;
mod handoff;
mod handoffs;
mod logs;
mod markdown;
mod metrics;
pub mod output;
mod pair;
mod pick;
mod platforms;
mod reload;
mod resume;
mod sessions;
mod setup;
mod spinner;
mod status;
mod table;
mod terminal;
mod visible;

pub use args::Args;
pub use error::CliError;

use args::Verb;
use backend::Target;
use output::Output;

/// Runs one command, which prints to stdout. The caller prints the error.
pub async fn run(args: Args) -> Result<(), CliError> {
    let out = &Output::new(args.global.json);
    let target = &Target::new(&args.global);
    let done = match args.verb {
        Verb::Chat(wish) => chat::run(target, out, wish).await,
        Verb::Resume(wish) => resume::run(target, out, wish).await,
        Verb::Handoff(wish) => handoff::run(target, out, wish).await,
        Verb::Handoffs(wish) => handoffs::run(target, out, wish).await,
        Verb::Sessions(wish) => sessions::run(target, out, wish).await,
        Verb::Agents(wish) => agents::run(target, out, wish).await,
        Verb::Pair(wish) => pair::run(target, out, wish).await,
        Verb::Platforms => platforms::run(target, out).await,
        Verb::Status => status::run(target, out).await,
        Verb::Setup(wish) => setup::run(target, out, wish).await,
        Verb::Reload => reload::run(target, out).await,
        Verb::Doctor => doctor::run(target, out).await,
        Verb::Events(wish) => events::run(target, out, wish).await,
        Verb::Logs(wish) => logs::run(target, out, wish).await,
        Verb::Metrics => metrics::run(target, out).await,
        Verb::Attach(wish) => attach::run(target, out, wish).await,
        Verb::Completions(wish) => complete::print_script(out, &wish),
        Verb::Complete(wish) => complete::answer(out, &args.global, &wish).await,
    };
    match done {
        Err(error) => Err(reload::explain(target, error).await),
        done => done,
    }
}
