//! Parses the arguments of hermesd, calls the library, and sets the exit code.

use std::process::ExitCode;

use clap::Parser;
use hermesd::cli::output::{self, Column, Output};
use hermesd::cli::{CliError, demo};
use hermesd::config::{self, Config, Overrides};
use hermesd::daemon::args::{Args, Verb};
use hermesd::daemon::{self, DaemonError};
use hermesd::platform;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Verb::Demo) = &args.verb {
        return finish(in_runtime(async {
            demo::run(&std::env::current_exe().unwrap_or_else(|_| "hermesd".into())).await
        }));
    }
    let mut overrides = Overrides {
        config: args.config,
        home: args.home,
        profile: args.profile,
        values: Vec::new(),
    };
    if let Some(socket) = args.socket {
        overrides
            .values
            .push(("control.socket", socket.display().to_string()));
    }
    if let Some(Verb::Diagnose) = &args.verb {
        return finish(in_runtime(diagnose(overrides)));
    }
    let config = match config::load(platform::schema(), &overrides) {
        Ok(config) => config,
        Err(error) => return fail(&DaemonError::Config(error.to_string())),
    };
    if args.check_config {
        if let Err(error) = daemon::check(&config) {
            return fail(&error);
        }
        return finish(check_config(&config, &Output::new(args.json)));
    }
    if args.rebuild_index {
        return match daemon::rebuild_index(&config) {
            Ok(messages) => finish(
                Output::new(false).line(format!("the full-text index has {messages} messages")),
            ),
            Err(error) => fail(&error),
        };
    }
    serve(config, overrides)
}

fn serve(config: Config, overrides: Overrides) -> ExitCode {
    let outcome = daemon::start_log(&config.log).and_then(|()| {
        let runtime = daemon::runtime().map_err(|source| DaemonError::Io {
            what: "the async runtime cannot start",
            source,
        })?;
        let outcome = runtime.block_on(daemon::run(config, move || {
            config::load(platform::schema(), &overrides)
        }));
        // Work that did not stop in time must not hold up the exit. The next start resumes it.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

async fn diagnose(overrides: Overrides) -> Result<(), CliError> {
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    daemon::diagnose(overrides, input, tokio::io::stdout())
        .await
        .map_err(|error| CliError::Other(error.to_string()))
}

fn check_config(config: &Config, out: &Output) -> Result<(), CliError> {
    let settings: Vec<_> = config.in_force().collect();
    let mut warnings = config.warnings();
    warnings.extend(platform::unsupported(config));
    let rows = settings.iter().map(|(key, value, origin)| serde_json::json!({"key": key, "value": value, "from": origin.to_string()}));
    out.value(&serde_json::json!({
        "home": config.home,
        "socket": config.control.socket,
        "settings": rows.collect::<Vec<_>>(),
        "warnings": warnings,
    }))?;
    out.line(format!(
        "home    {}\nsocket  {}\n",
        config.home.display(),
        config.control.socket.display()
    ))?;
    let row = |(key, value, origin): &(&str, config::Value, &config::Origin)| {
        vec![(*key).to_owned(), value.to_string(), origin.to_string()]
    };
    out.table(
        &[
            Column::whole("SETTING"),
            Column::text("VALUE"),
            Column::text("FROM"),
        ],
        &settings.iter().map(row).collect::<Vec<_>>(),
    )?;
    for warning in &warnings {
        out.line(format!("\nwarning: {warning}"))?;
    }
    Ok(())
}

fn in_runtime(work: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let runtime = daemon::runtime()
        .map_err(|e| CliError::Other(format!("the async runtime cannot start: {e}")))?;
    let outcome = runtime.block_on(work);
    // A pending read of standard input must not hold up the exit.
    runtime.shutdown_background();
    outcome
}

fn finish(outcome: Result<(), CliError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error, false);
            ExitCode::from(error.exit_code())
        }
    }
}

fn fail(error: &DaemonError) -> ExitCode {
    if !daemon::log_end(error) {
        output::to_stderr(&format!("error: {error}"));
    }
    ExitCode::from(error.exit_code())
}
