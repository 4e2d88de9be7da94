//! Who can read what hermesd writes: the home and its database are for their owner alone, whatever the umask is.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, TOKEN};
use crate::support::{Home, Ran, until};

/// Runs a program that masks nothing.
const UNMASKED: &str = "umask 000; exec \"$0\" \"$@\"";

fn mode(path: &Path) -> u32 {
    path.metadata()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .permissions()
        .mode()
        & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn setup_makes_a_home_and_a_database_that_only_their_owner_reads() {
    let (bot, _) = Bot::of_ada("");
    bot.home.write("token", TOKEN);
    let (fresh, config) = (bot.home.path().join("fresh/.hermes"), bot.home.path());
    let url = bot.api.hermes_base_url();
    let id = ADA.id.to_string();
    let token = config.join("token").display().to_string();
    let mut command = bot.home.command("sh");
    command
        .args(["-c", UNMASKED, env!("CARGO_BIN_EXE_hermesctl")])
        .args(["setup", "--no-input", "--token-file", &token])
        .args(["--home-channel", &id])
        .env("HERMES_HOME", &fresh)
        .env("HERMESD_PLATFORMS_TELEGRAM_BASE_URL", &url);
    let ran = bot.home.run(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(mode(&fresh), 0o700);
    assert_eq!(mode(&fresh.join("state.db")), 0o600);
    assert_eq!(mode(&config.join(".config/hermesd/hermesd.toml")), 0o600);
}

#[test]
fn a_daemon_makes_a_home_and_a_database_that_only_their_owner_reads() {
    let home = Home::new();
    let fresh = home.path().join("fresh/.hermes");
    let mut command = home.command("sh");
    command
        .args(["-c", UNMASKED, env!("CARGO_BIN_EXE_hermesd")])
        .env("HERMES_HOME", &fresh);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let wal = fresh.join("state.db-wal");
    until("it listens", || {
        (wal.exists() && fresh.join("control.sock").exists()).then_some(())
    });
    let modes = ["state.db", "state.db-wal", "state.db-shm", "hermesd.lock"]
        .map(|name| (name, mode(&fresh.join(name)) & 0o077));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(mode(&fresh), 0o700);
    assert_eq!(mode(&fresh.join("state.db")), 0o600);
    assert!(modes.iter().all(|(_, others)| *others == 0), "{modes:?}");
}

#[test]
fn setup_keeps_the_link_and_the_mode_of_the_file_that_it_changes() {
    let (bot, _) = Bot::of_ada("");
    bot.home.write("token", TOKEN);
    bot.home
        .write("dots/hermesd.toml", "[log]\nlevel = \"info\" # mine\n");
    let real = bot.home.path().join("dots/hermesd.toml");
    set_mode(&real, 0o640);
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&real, Some(12345), Some(23456)).unwrap();
    }
    let link = bot.home.path().join(".config/hermesd/hermesd.toml");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("../../dots/hermesd.toml", &link).unwrap();
    let token = bot.home.path().join("token").display().to_string();
    let ran = bot
        .home
        .hermesctl(&["setup", "--no-input", "--token-file", &token]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(link.is_symlink(), "the link is a link");
    let text = std::fs::read_to_string(&real).unwrap();
    assert!(
        text.contains("# mine") && text.contains("token = "),
        "{text}"
    );
    assert_eq!(mode(&real), 0o640);
    if is_root {
        use std::os::unix::fs::MetadataExt;
        let facts = real.metadata().unwrap();
        assert_eq!((facts.uid(), facts.gid()), (12345, 23456));
    }
    // A file that all can read stays one, and setup says so.
    set_mode(&real, 0o644);
    let ran = bot
        .home
        .hermesctl(&["setup", "--no-input", "--token-file", &token]);
    assert_eq!(mode(&real), 0o644);
    assert!(ran.stdout.contains("chmod o-r"), "{ran:?}");
}

/// The grade of what was found under this name.
fn grade(ran: &Ran, what: &str) -> String {
    let report = ran.json();
    let all = report["findings"].as_array().expect("findings").iter();
    let mut found = all.filter(|finding| finding["what"] == what);
    let grade = found
        .next()
        .map_or(&Value::Null, |finding| &finding["grade"]);
    grade.as_str().unwrap_or("none").to_owned()
}

#[test]
fn doctor_grades_the_modes_of_home_database_files_and_logs() {
    let home = Home::new();
    drop(home.store());
    for name in ["files", "logs"] {
        std::fs::create_dir(home.path().join(name)).unwrap();
    }
    let grades = |at_home: u32, directories: u32, database: u32| {
        set_mode(home.path(), at_home);
        set_mode(&home.path().join("files"), directories);
        set_mode(&home.path().join("logs"), directories);
        set_mode(&home.path().join("state.db"), database);
        let ran = home.hermesctl(&["--json", "doctor"]);
        ["home", "database mode", "files mode", "logs mode"].map(|what| grade(&ran, what))
    };
    assert_eq!(
        grades(0o700, 0o700, 0o600),
        ["good", "none", "none", "none"]
    );
    assert_eq!(
        grades(0o700, 0o755, 0o644),
        ["good", "doubtful", "doubtful", "doubtful"]
    );
    assert_eq!(grades(0o755, 0o755, 0o644), ["bad", "bad", "bad", "bad"]);
    assert_eq!(grades(0o710, 0o700, 0o600)[0], "bad");
    let words = home.hermesctl(&["doctor"]).stdout;
    assert!(words.contains("chmod 700"), "{words}");
    set_mode(home.path(), 0o700);
}
