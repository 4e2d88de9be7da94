//! Hermes' profiles: each is a home of its own, with a daemon, a lock and a socket of its own.

use std::path::Path;
use std::process::Child;

use rusqlite::Connection;
use serde_json::Value;

use crate::support::{Home, Ran, SESSION, seed_session, until};

/// A person with a `~/.hermes` that has profiles.
struct Person {
    home: Home,
}

impl Person {
    fn with(profiles: &[&str]) -> Person {
        let home = Home::new();
        std::fs::create_dir_all(home.path().join(".hermes/profiles")).expect("a directory");
        for name in profiles {
            let profile = home.path().join(".hermes/profiles").join(name);
            std::fs::create_dir(profile).expect("a directory");
        }
        std::fs::create_dir(home.path().join("run")).expect("a directory");
        Person { home }
    }

    fn root(&self) -> std::path::PathBuf {
        self.home.path().join(".hermes")
    }

    fn profile(&self, name: &str) -> std::path::PathBuf {
        self.root().join("profiles").join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> std::process::Command {
        let mut command = self.home.command(program);
        command.env_remove("HERMES_HOME");
        command.env("XDG_RUNTIME_DIR", self.home.path().join("run"));
        command.args(arguments);
        command
    }

    fn hermesctl(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(env!("CARGO_BIN_EXE_hermesctl"), arguments);
        self.home.run(&mut command)
    }

    fn check_config(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(env!("CARGO_BIN_EXE_hermesd"), arguments);
        self.home.run(command.args(["--check-config", "--json"]))
    }

    /// Starts a daemon and waits until it answers at this socket.
    fn start(&self, arguments: &[&str], socket: &str) -> Serving {
        let log = std::fs::File::create(self.home.path().join("log")).expect("a log");
        let mut command = self.command(env!("CARGO_BIN_EXE_hermesd"), arguments);
        let serving = Serving(command.stderr(log).spawn().expect("hermesd"));
        let socket = self.home.path().join("run/hermesd").join(socket);
        until("hermesd answers", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
        serving
    }
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn same(told: &Value, path: &Path) -> bool {
    told.as_str() == Some(&path.canonicalize().expect("a path").display().to_string())
}

#[test]
fn the_home_is_that_of_the_profile_that_is_named_or_active() {
    let person = Person::with(&["work", "play"]);
    let home_of = |arguments: &[&str]| person.check_config(arguments).json()["home"].clone();
    assert!(same(&home_of(&[]), &person.root()));
    assert!(same(
        &home_of(&["--profile", "work"]),
        &person.profile("work")
    ));
    assert!(same(
        &home_of(&["--profile", "Work"]),
        &person.profile("work")
    ));
    assert!(same(&home_of(&["--profile", "default"]), &person.root()));

    std::fs::write(person.root().join("active_profile"), "play\n").expect("a file");
    assert!(same(&home_of(&[]), &person.profile("play")));
    assert!(same(&home_of(&["--profile", "default"]), &person.root()));
    let other = person.home.path().join("run");
    assert!(same(
        &home_of(&["--home", &other.display().to_string()]),
        &other
    ));
    let mut command = person.command(env!("CARGO_BIN_EXE_hermesd"), &["--check-config", "--json"]);
    let ran = person.home.run(command.env("HERMES_HOME", &other));
    assert!(same(&ran.json()["home"], &other), "{ran:?}");
    // A profile's home leads to the others.
    let mut command = person.command(
        env!("CARGO_BIN_EXE_hermesd"),
        &["--check-config", "--json", "--profile", "work"],
    );
    let ran = person
        .home
        .run(command.env("HERMES_HOME", person.profile("play")));
    assert!(
        same(&ran.json()["home"], &person.profile("work")),
        "{ran:?}"
    );
}

#[test]
fn a_profile_that_is_not_there_is_refused_and_the_others_are_listed() {
    let person = Person::with(&["work", "play"]);
    for name in ["home", "../work", "", "Ä"] {
        let ran = person.check_config(&["--profile", name]);
        assert_eq!(ran.code, 78, "{ran:?}");
        assert!(ran.stderr.contains("default, play, work"), "{ran:?}");
    }
    std::fs::write(person.root().join("active_profile"), "gone").expect("a file");
    let ran = person.hermesctl(&["status"]);
    assert_ne!(ran.code, 0);
    assert!(
        ran.stderr.contains("\"gone\"") && ran.stderr.contains("default, play, work"),
        "{ran:?}"
    );
}

#[test]
fn each_profile_has_a_daemon_of_its_own() {
    let person = Person::with(&["work"]);
    let _default = person.start(&[], "control.sock");
    let _work = person.start(&["--profile", "work"], "work/control.sock");
    let status = |arguments: &[&str]| {
        let ran = person.hermesctl(&[&["--json", "status"], arguments].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()
    };
    let (default, work) = (status(&[]), status(&["--profile", "work"]));
    assert_eq!(
        (&default["profile"], &work["profile"]),
        (&"default".into(), &"work".into())
    );
    assert_ne!(default["pid"], work["pid"]);
    assert!(same(&work["home"], &person.profile("work")));
    let logs = ["logs", "--user", "--print-command", "--profile", "work"];
    let asked = person.hermesctl(&logs);
    assert!(
        asked.stdout.contains("--user-unit=hermesd@work.service"),
        "{asked:?}"
    );
    let shown = person.hermesctl(&["status", "--profile", "work"]);
    assert!(shown.stdout.contains("(profile work)"), "{shown:?}");
    // The one that is active is found without being named.
    std::fs::write(person.root().join("active_profile"), "work").expect("a file");
    assert_eq!(status(&[])["pid"], work["pid"]);
}

#[test]
fn the_settings_of_a_profile_win_over_those_of_all() {
    let person = Person::with(&["work"]);
    let write =
        |name: &str, text: &str| person.home.write(&format!(".config/hermesd/{name}"), text);
    write(
        "hermesd.toml",
        "[handoff]\nparallel = 3\n[log]\nlevel = \"debug\"\n",
    );
    write("profiles/work.toml", "[handoff]\nparallel = 5\n");
    let value = |arguments: &[&str], key: &str| {
        let all = person.check_config(arguments).json();
        let settings = all["settings"].as_array().expect("settings").clone();
        let found = settings.into_iter().find(|s| s["key"] == key);
        found.expect("a setting")["value"].clone()
    };
    assert_eq!(
        value(&[], "handoff.parallel"),
        value(&["--profile", "default"], "handoff.parallel")
    );
    assert_eq!(
        value(&[], "handoff.parallel").to_string().trim_matches('"'),
        "3"
    );
    let work = ["--profile", "work"];
    assert_eq!(
        value(&work, "handoff.parallel")
            .to_string()
            .trim_matches('"'),
        "5"
    );
    assert_eq!(value(&work, "log.level"), "debug");
}

#[tokio::test]
async fn the_doctor_tells_of_handoffs_that_wait_in_other_profiles() {
    let person = Person::with(&["work", "play"]);
    seed_session(&person.home).await;
    for profile in ["work", "play"] {
        let database = person.profile(profile).join("state.db");
        std::fs::copy(person.home.path().join("state.db"), &database).expect("a copy");
        let waiting = "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'discord' WHERE id = ?1";
        let connection = Connection::open(&database).expect("a database");
        connection.execute(waiting, [SESSION]).expect("a request");
    }
    let _play = person.start(&["--profile", "play"], "play/control.sock");
    let before = std::fs::read(person.profile("work").join("state.db")).expect("a database");
    let ran = person.hermesctl(&["doctor"]);
    assert!(
        ran.stdout.contains("profile work") && ran.stdout.contains("hermesd --profile work"),
        "{ran:?}"
    );
    assert!(!ran.stdout.contains("profile play"), "{ran:?}");
    let after = std::fs::read(person.profile("work").join("state.db")).expect("a database");
    assert_eq!(before, after, "the doctor only looks");
}

#[test]
fn profiles_are_completed() {
    let person = Person::with(&["work", "play"]);
    let ran = person.hermesctl(&["__complete", "fish", "--", "hermesctl", "--profile", ""]);
    let offered: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(offered, ["words", "default", "play", "work"], "{ran:?}");
}
