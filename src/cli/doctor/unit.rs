//! Checks the units of hermesd in the service manager.

use std::collections::HashMap;

use tokio::process::Command;

use crate::platform::Finding;

const PROPERTIES: &str = "--property=LoadState,ActiveState,UnitFileState,Result";

/// `own` is the name of the user's unit for the home, without its ending.
pub(super) async fn check(own: &str, daemon_runs: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for (whose, flag, name) in [("system", None, "hermesd"), ("user", Some("--user"), own)] {
        let Some(unit) = properties(flag, name).await else {
            continue;
        };
        let of = |name: &str| unit.get(name).map(String::as_str).unwrap_or_default();
        if of("LoadState") != "loaded" {
            continue;
        }
        let detail = format!("{}, {}", of("ActiveState"), of("UnitFileState"));
        let what = format!("{whose} unit");
        found.push(match of("ActiveState") {
            "failed" => Finding::bad(
                what,
                format!("it has failed: {}", of("Result")),
                format!("see `journalctl {} {name}`", journal_flag(flag)),
            ),
            _ => Finding::good(what, detail),
        });
        if flag.is_some() && of("UnitFileState") == "enabled" && lingers().await == Some(false) {
            found.push(Finding::doubtful(
                "lingering",
                "your services, including hermesd, end when you log out",
                "loginctl enable-linger",
            ));
        }
    }
    if found.is_empty() && !daemon_runs {
        found.push(Finding::doubtful(
            "unit",
            format!("no {own}.service is installed"),
            "install a package, or run contrib/install.sh, so that hermesd starts automatically",
        ));
    }
    found
}

fn journal_flag(flag: Option<&str>) -> &'static str {
    match flag {
        Some(_) => "--user-unit",
        None => "--unit",
    }
}

/// The properties of the unit. `None` if there is no service manager.
async fn properties(flag: Option<&str>, name: &str) -> Option<HashMap<String, String>> {
    let service = format!("{name}.service");
    let text = output_of(
        Command::new("systemctl")
            .args(flag)
            .args(["show", &service, PROPERTIES]),
    )
    .await?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Some(pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
}

async fn lingers() -> Option<bool> {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok()??;
    let text = output_of(Command::new("loginctl").args([
        "show-user",
        &user.name,
        "--property=Linger",
        "--value",
    ]))
    .await?;
    Some(text.trim() == "yes")
}

/// The output of a program, if it exists and succeeds.
async fn output_of(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .ok()?;
    let ended_well = output.status.success();
    ended_well.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
