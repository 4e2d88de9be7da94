//! A Hermes gateway that starts on the home of a running daemon, and what the two leave for each other.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::telegram::{Rights, ScriptedFault};
use crate::support::{Daemon, Home, SESSION, seed_session, somebody_hands_off, until};

const MARK: &str = ".clean_shutdown";

/// A process that takes the home as a Hermes gateway does when it starts. Ends with the test.
struct Gateway {
    process: Child,
    _lock: Flock<File>,
}

impl Gateway {
    fn start(home: &Home) -> Gateway {
        let process = Command::new("sleep").arg("600").spawn().expect("sleep");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("stat");
        let started: u64 = stat
            .split(' ')
            .nth(21)
            .expect("a field")
            .parse()
            .expect("ticks");
        let record = json!({
            "pid": process.id(),
            "kind": "hermes-gateway",
            "argv": ["hermes", "gateway", "run"],
            "start_time": started,
        });
        let path = home.path().join("gateway.lock");
        std::fs::remove_file(&path).expect("the daemon's lock file");
        let file = File::create_new(&path).expect("a lock file");
        let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).expect("a lock");
        write!(*lock, "{record}").expect("a record");
        home.write("gateway.pid", &record.to_string());
        Gateway {
            process,
            _lock: lock,
        }
    }

    /// What a gateway does with the mark of a clean stop when it starts.
    fn reads_the_mark(&self, home: &Home) {
        until("the mark is there", || {
            std::fs::remove_file(home.path().join(MARK)).ok()
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until_yielding(daemon: &Daemon) {
    until("the daemon notices", || {
        daemon.log().contains("started on this home").then_some(())
    });
}

fn look<T: rusqlite::types::FromSql>(home: &Home, sql: &str) -> T {
    let found = home.sqlite().query_row(sql, [], |row| row.get(0));
    found.expect("a row")
}

#[tokio::test]
async fn a_gateway_that_starts_gets_the_home_and_every_row_that_is_not_claimed() {
    let home = Home::new();
    seed_session(&home).await;
    let mut daemon = home.start();
    somebody_hands_off(&home);
    let handed_off = "SELECT count(*) FROM hermesd_handoffs";
    let before: i64 = look(&home, handed_off);

    let begun = Instant::now();
    let gateway = Gateway::start(&home);
    until_yielding(&daemon);
    // By an event: the look of the clock would come much later.
    assert!(begun.elapsed() < Duration::from_secs(5));
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local' WHERE id = ?1",
            [SESSION],
        )
        .expect("a request");
    gateway.reads_the_mark(&home);
    assert_eq!(daemon.wait().code(), Some(69));

    let log = daemon.log();
    let pid = format!("process id {}", gateway.process.id());
    assert!(
        log.contains(&pid) && log.contains("hermes gateway stop"),
        "{log}"
    );
    let state: String = look(&home, "SELECT handoff_state FROM sessions LIMIT 1");
    assert_eq!(state, "pending", "it is the gateway's");
    assert_eq!(look::<i64>(&home, handed_off), before);
    assert!(!home.path().join(MARK).exists());
    // And it does not come back while the gateway lives.
    let mut again = home.spawn(&[]);
    assert_eq!(again.wait().code(), Some(69));
    drop(gateway);
    let _daemon = home.start();
}

#[tokio::test]
async fn a_handoff_that_is_not_bound_yet_is_put_back() {
    let bot = Bot::at_home(|api| api.forum("Work", Rights::TopicsAdmin));
    seed_session(&bot.home).await;
    let mut daemon = bot.start();
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("createForumTopic", ScriptedFault::HoldAfter(gate.clone()));
    bot.ask();
    until("the topic is there", || bot.api.topics(bot.chat).pop());
    let gateway = Gateway::start(&bot.home);
    until_yielding(&daemon);
    gate.add_permits(1);
    gateway.reads_the_mark(&bot.home);
    assert_eq!(daemon.wait().code(), Some(69));
    let row: String = bot.look("SELECT handoff_state || ': ' || handoff_error FROM sessions WHERE handoff_state IS NOT NULL");
    assert!(
        row.starts_with("failed: a Hermes gateway has taken over"),
        "{row}"
    );
    let bound: i64 = bot.look("SELECT count(*) FROM gateway_routing");
    assert_eq!(bound, 0, "the gateway's routing is as it was");
}

#[tokio::test]
async fn a_turn_in_progress_is_finished() {
    let home = Home::new();
    seed_session(&home).await;
    let script =
        "cat > /dev/null; touch asked; until [ -e go ]; do sleep 0.02; done; echo 'At last.'";
    home.write(
        "agent",
        &format!("cd '{}'; {script}\n", home.path().display()),
    );
    let agent = format!("sh '{}'", home.path().join("agent").display());
    let mut daemon = home.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &agent),
    ]);
    let asked = home.hermesctl(&["handoff", "local", "--session", SESSION, "--no-wait"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    until("the agent is asked", || {
        home.path().join("asked").exists().then_some(())
    });
    let gateway = Gateway::start(&home);
    until_yielding(&daemon);
    home.write("go", "");
    gateway.reads_the_mark(&home);
    assert_eq!(daemon.wait().code(), Some(69));
    let state: String = look(&home, "SELECT state FROM hermesd_handoffs");
    assert_eq!(state, "completed");
}

#[tokio::test]
async fn a_lock_file_that_is_only_removed_is_locked_again() {
    let home = Home::new();
    seed_session(&home).await;
    let mut daemon = home.start();
    let path = home.path().join("gateway.lock");
    std::fs::remove_file(&path).expect("a lock file");
    until("it is locked again", || {
        let file = File::open(&path).ok()?;
        Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .is_err()
            .then_some(())
    });
    assert!(daemon.child_lives());
    somebody_hands_off(&home);
}

#[tokio::test]
async fn a_lock_that_a_stranger_keeps_belongs_to_a_gateway_of_another_container() {
    let home = Home::new();
    seed_session(&home).await;
    let mut daemon = home.start();
    let path = home.path().join("gateway.lock");
    std::fs::remove_file(&path).expect("a lock file");
    let file = File::create_new(&path).expect("a lock file");
    let _lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).expect("a lock");
    until_yielding(&daemon);
    until("the mark is there", || {
        std::fs::remove_file(home.path().join(MARK)).ok()
    });
    assert_eq!(daemon.wait().code(), Some(69));
}

#[tokio::test]
async fn a_clean_stop_leaves_the_mark_and_a_start_removes_it() {
    let home = Home::new();
    seed_session(&home).await;
    home.write(MARK, "");
    let daemon = home.start();
    somebody_hands_off(&home);
    let mark = home.path().join(MARK);
    assert!(!mark.exists());
    assert!(daemon.stop().success());
    assert!(mark.exists());
    // One that is killed leaves none.
    let killed = home.start();
    until("the mark is removed", || (!mark.exists()).then_some(()));
    killed.kill();
    assert!(!mark.exists());
}

#[tokio::test]
async fn a_stop_that_cuts_a_turn_off_leaves_no_mark() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "1h")]);
    let asked = home.hermesctl(&["handoff", "local", "--session", SESSION, "--no-wait"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    until("the agent answers", || {
        let stage: Option<String> = look(&home, "SELECT stage FROM hermesd_handoffs");
        (stage.as_deref() == Some("bound")).then_some(())
    });
    daemon.cut_off();
    assert!(!home.path().join(MARK).exists());
}

#[tokio::test]
async fn a_client_does_not_start_the_daemon_where_a_gateway_serves() {
    let home = Home::new();
    seed_session(&home).await;
    // As the service manager listens for a daemon that has ended.
    let listener = std::os::unix::net::UnixListener::bind(home.socket()).expect("a socket");
    listener
        .set_nonblocking(true)
        .expect("a socket that does not wait");
    let state = json!({"gateway_state": "running", "pid": std::process::id()});
    home.write("gateway_state.json", &state.to_string());
    let ran = home.hermesctl(&["status"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let knocked = listener.accept();
    assert!(knocked.is_err(), "it was asked to start");
}
