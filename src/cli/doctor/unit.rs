//! What the service manager knows of hermesd.

use std::collections::HashMap;

use tokio::process::Command;

use crate::platform::Finding;

const PROPERTIES: &str = "--property=LoadState,ActiveState,UnitFileState,Result";

/// `own` is the name of the user's unit for the home, without its ending.
pub(super) async fn look(own: &str, daemon_runs: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for (whose, flag, name) in [("system", None, "hermesd"), ("user", Some("--user"), own)] {
        let Some(unit) = shown(flag, name).await else {
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
                "your services end when you log out, and hermesd with them",
                "loginctl enable-linger",
            ));
        }
    }
    if found.is_empty() && !daemon_runs {
        found.push(Finding::doubtful(
            "unit",
            format!("no {own}.service is installed"),
            "install a package, or run contrib/install.sh, so that it starts by itself",
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

/// The unit's properties. `None`: there is no service manager to ask.
async fn shown(flag: Option<&str>, name: &str) -> Option<HashMap<String, String>> {
    let service = format!("{name}.service");
    let text = said(
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
    let text = said(Command::new("loginctl").args([
        "show-user",
        &user.name,
        "--property=Linger",
        "--value",
    ]))
    .await?;
    Some(text.trim() == "yes")
}

/// What a program prints, if it is there and ends well.
async fn said(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .ok()?;
    let ended_well = output.status.success();
    ended_well.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
