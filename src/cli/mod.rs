//! hermesctl: arguments in, one file a verb, exit code out.

mod agents;
mod args;
mod attach;
mod backend;
mod chat;
mod complete;
pub mod demo;
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
mod platforms;
mod resume;
mod sessions;
mod setup;
mod status;
mod terminal;
mod visible;

pub use args::Args;
pub use error::CliError;

use args::Verb;
use backend::Backend;
use output::Output;

use crate::config::{self, Overrides};

/// Runs one command. What it printed is on stdout; the error, if any, is for the caller to show.
pub async fn run(args: Args) -> Result<(), CliError> {
    let out = Output::new(args.json);
    match &args.verb {
        Verb::Completions(wish) => return complete::print_script(&out, wish),
        Verb::Complete(wish) => return complete::answer(&out, &args, wish).await,
        _ => {}
    }
    let mut overrides = Overrides {
        config: args.config.clone(),
        home: args.home.clone(),
        profile: args.profile.clone(),
        values: Vec::new(),
    };
    if let Some(socket) = &args.socket {
        overrides
            .values
            .push(("control.socket", socket.display().to_string()));
    }
    if matches!(args.verb, Verb::Doctor) {
        return doctor::run(&overrides, args.socket.is_some(), &out).await;
    }
    if let Verb::Setup(wish) = &args.verb {
        return setup::run(&overrides, args.socket.is_some(), &out, wish).await;
    }
    let config = config::load(crate::platform::schema(), &overrides)?;
    let backend = match &args.verb {
        // The journal can be read when there is neither a daemon nor a database.
        Verb::Logs(wish) if wish.session.is_none() => {
            return logs::run(&config, &out, wish, None);
        }
        Verb::Sessions(_) => Backend::open_to_read(&config, args.socket.is_some()).await?,
        _ => Backend::open(&config, args.socket.is_some()).await?,
    };
    match args.verb {
        Verb::Logs(wish) => {
            let session = logs::session(&backend, &wish).await?;
            logs::run(&config, &out, &wish, session)
        }
        Verb::Metrics => metrics::run(&backend, &out).await,
        Verb::Chat(wish) => chat::run(&backend, &config, &out, wish).await,
        Verb::Resume(wish) => chat::resume(&backend, &config, &out, wish).await,
        Verb::Handoff(wish) => handoff::run(&backend, &config, &out, wish).await,
        Verb::Handoffs(wish) => handoffs::run(&backend, &config, &out, wish).await,
        Verb::Sessions(wish) => sessions::run(&backend, &config, &out, wish).await,
        Verb::Agents(wish) => agents::run(&backend, &out, wish).await,
        Verb::Pair(wish) => pair::run(&backend, &out, wish).await,
        Verb::Platforms => platforms::run(&backend, &config, &out).await,
        Verb::Doctor | Verb::Setup(_) => Ok(()),
        Verb::Status => status::run(&backend, &config, &out).await,
        Verb::Events(wish) => events::run(&backend, &out, wish).await,
        Verb::Attach(wish) => attach::run(&backend, &config, &out, wish).await,
        // Answered above: they need no home.
        Verb::Completions(_) | Verb::Complete(_) => Ok(()),
    }
}
