//! Agents work in the directory in which a person opened the session, wherever the session goes, and nowhere else.

use std::path::{Path, PathBuf};

use hermesd::client::Client;
use hermesd::protocol::{Call, ChatOpen, ChatView};
use serde_json::Value;

use crate::cli::chat::rows;
use crate::support::acp::{self, record};
use crate::support::pty::Terminal;
use crate::support::{Daemon, Home, program, seed_session};
use crate::terminal::sessions::{kind, say};

/// A directory of the person, with a name that is hard to pass on.
fn directory(home: &Home, name: &str) -> PathBuf {
    let path = home.path().join(name);
    std::fs::create_dir_all(&path).expect("a directory");
    path.canonicalize().expect("a directory")
}

fn hermesctl_in(home: &Home, directory: &Path, arguments: &[&str]) -> Terminal {
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
    command.args(arguments).current_dir(directory);
    Terminal::of(command, 200, 40)
}

/// A daemon whose agent says where it works.
fn start(home: &Home) -> Daemon {
    let (agent, _) = program(
        home,
        "agent",
        "cat > /dev/null; echo \"I am in $(pwd -P).\"",
    );
    home.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &agent),
    ])
}

fn only_session(home: &Home) -> String {
    rows(home, "SELECT id FROM sessions", |row| row.get(0)).remove(0)
}

#[test]
fn an_agent_works_where_the_session_began_on_resume_and_in_a_chat_too() {
    let home = Home::new();
    let _daemon = start(&home);
    let (project, other) = (directory(&home, "my project ü"), directory(&home, "other"));
    let inside = format!("I am in {}.", project.display());

    let mut terminal = hermesctl_in(&home, &project, &["chat"]);
    terminal.say("Where are you?");
    terminal.shows(&inside);
    terminal.prompts();
    // The program ends its reply with a line end, which is no other reply.
    assert_eq!(terminal.screen().matches(&inside).count(), 1);
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    let id = only_session(&home);
    let shown = home.hermesctl(&["sessions", "show", &id]);
    let works_in = format!("works in  {}", project.display());
    assert!(shown.stdout.contains(&works_in), "{shown:?}");
    let shown = home.hermesctl(&["--json", "sessions", "show", &id]).json();
    assert_eq!(shown["cwd"], project.to_str().unwrap());

    let mut again = hermesctl_in(&home, &other, &["chat", "--resume", &id]);
    again.shows(&format!(
        "This session works in {}, not in the current directory.",
        project.display()
    ));
    again.say("And now?");
    again.shows_times(&inside, 2);
    again.say("/handoff local");
    assert_eq!(again.end(), 0);
    let said = home.type_into("local/1", "And here?\n");
    assert_eq!(said.last(), Some(&inside));

    // Back again, and moved on purpose.
    let moved = hermesctl_in(&home, &other, &["chat", "--resume", &id, "--here"]);
    moved.shows("Brought back from local.");
    moved.say("And at last?");
    moved.shows(&format!("I am in {}.", other.display()));
    assert!(!moved.screen().contains("This session works in"));
}

#[test]
fn a_session_without_a_directory_gets_the_first_one_in_which_it_is_opened() {
    let home = Home::new();
    let _daemon = start(&home);
    // A chat has no directory.
    home.type_into("local", "hello\n");
    let id = only_session(&home);
    let project = directory(&home, "project");
    let terminal = hermesctl_in(&home, &project, &["resume", &id]);
    terminal.say("Where are you?");
    terminal.shows(&format!("I am in {}.", project.display()));
}

#[test]
fn a_directory_that_cannot_be_entered_is_named_and_no_agent_runs() {
    let home = Home::new();
    let _daemon = start(&home);
    let project = directory(&home, "project");
    let mut terminal = hermesctl_in(&home, &project, &["chat"]);
    terminal.say("Where are you?");
    terminal.shows("I am in ");
    terminal.prompts();
    let id = only_session(&home);
    std::fs::remove_dir(&project).unwrap();
    terminal.say("And now?");
    terminal.shows(&format!(
        "this session works in {}, which does not exist",
        project.display()
    ));
    terminal.shows(&format!("hermesctl chat --resume {id} --here"));
    std::fs::write(&project, "").unwrap();
    terminal.say("And now?");
    terminal.shows("which is not a directory");
    // Nothing was stored of what was not answered, and the chat goes on.
    assert_eq!(rows(&home, "SELECT 1 FROM messages", |_| Ok(())).len(), 2);
    std::fs::remove_file(&project).unwrap();
    let failed = home.hermesctl(&["handoff", "local", "--session", &id]);
    assert_eq!(failed.code, 4, "{failed:?}");
    assert!(failed.stderr.contains("which does not exist"), "{failed:?}");
    std::fs::create_dir(&project).unwrap();
    terminal.say("And at last?");
    terminal.shows_times("I am in ", 2);
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_current_directory_that_is_gone_is_refused_before_a_session_begins() {
    let home = Home::new();
    let _daemon = start(&home);
    let project = directory(&home, "project");
    let mut command = home.command("sh");
    let script = format!(
        "rmdir \"$PWD\" && exec '{}' chat",
        env!("CARGO_BIN_EXE_hermesctl")
    );
    command.args(["-c", &script]).current_dir(&project);
    let mut terminal = Terminal::of(command, 100, 40);
    assert_eq!(terminal.end(), 3);
    let screen = terminal.screen();
    assert!(
        screen.contains("the current directory cannot be used"),
        "{screen}"
    );
}

#[tokio::test]
async fn only_an_absolute_directory_is_accepted_from_the_socket() {
    let home = Home::new();
    let daemon = start(&home);
    let client = daemon.client().await;
    for cwd in ["", ".", "project", "../..", "~", "/a\0b"] {
        let wish = ChatOpen {
            cwd: Some(cwd.into()),
            ..ChatOpen::default()
        };
        let opened = client.call::<ChatView>(Call::ChatOpen(wish)).await;
        assert_eq!(kind(opened), "bad_directory", "{cwd:?}");
    }
}

async fn open_in(client: &Client, session: Option<&str>, cwd: &Path) -> ChatView {
    let wish = ChatOpen {
        session: session.map(str::to_owned),
        cwd: cwd.to_str().map(str::to_owned),
        here: true,
        ..ChatOpen::default()
    };
    client.call(Call::ChatOpen(wish)).await.expect("a session")
}

/// The directories of all sessions that the ACP agent was asked to open.
fn opened_in(home: &Home) -> Vec<String> {
    let asked = record(home).into_iter().map(|mut line| line["got"].take());
    asked
        .filter(|asked| {
            let method = asked["method"].as_str();
            matches!(method, Some("session/new" | "session/load"))
        })
        .map(|asked| asked["params"]["cwd"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_acp_agent_opens_each_session_in_its_directory_and_again_if_it_moves() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = acp::start(&home, "plain", &[]);
    let client = daemon.client().await;
    let (project, other) = (directory(&home, "project"), directory(&home, "other"));
    let id = open_in(&client, None, &project).await.session.id;
    say(&client, "one").await.unwrap();
    say(&client, "two").await.unwrap();
    assert_eq!(opened_in(&home), [project.to_str().unwrap()]);
    open_in(&client, Some(&id), &other).await;
    say(&client, "three").await.unwrap();
    assert_eq!(opened_in(&home).last().unwrap(), other.to_str().unwrap());
}

/// A Hermes that answers each message, and writes down its requests. It knows `session.cwd.set` if `knows` says so.
fn hermes(home: &Home, knows: bool) -> (Daemon, PathBuf) {
    let set = match knows {
        true => r#"reply '"result": {}'"#,
        false => r#"reply '"error": {"code": -32601, "message": "unknown method"}'"#,
    };
    let script = format!(
        r#"
event() {{ printf '{{"jsonrpc": "2.0", "method": "event", "params": {{"type": "%s", "session_id": "live", "payload": %s}}}}\n' "$1" "$2"; }}
reply() {{ printf '{{"jsonrpc": "2.0", "id": %s, %s}}\n' "$id" "$1"; }}
event gateway.ready '{{}}'
while read -r line; do
  printf '%s\n' "$line" >> "$OUT"
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *'"session.resume"'*) reply '"result": {{"session_id": "live", "info": {{"cwd": "/"}}}}' ;;
    *'"session.cwd.set"'*) {set} ;;
    *'"prompt.submit"'*)
      reply '"result": {{"status": "streaming"}}'
      event message.complete '{{"text": "Done.", "status": "complete"}}' ;;
    *) reply '"result": {{}}' ;;
  esac
done"#
    );
    let (python, out) = program(home, "python", &script);
    let daemon = home.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "hermes"),
        ("HERMESD_AGENTS_HERMES_PYTHON", &python),
    ]);
    (daemon, out)
}

/// The directories that Hermes was told to work in.
fn told(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out).unwrap_or_default();
    let requests = text.lines().map(|line| serde_json::from_str(line).unwrap());
    requests
        .filter(|request: &Value| request["method"] == "session.cwd.set")
        .map(|request| request["params"]["cwd"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn hermes_is_told_the_directory_before_the_message() {
    let home = Home::new();
    let (daemon, out) = hermes(&home, true);
    let client = daemon.client().await;
    let project = directory(&home, "project");
    open_in(&client, None, &project).await;
    let turn = say(&client, "one").await.unwrap();
    assert_eq!((turn.reply.as_str(), turn.note), ("Done.", None));
    assert_eq!(told(&out), [project.to_str().unwrap()]);
    let text = std::fs::read_to_string(&out).unwrap();
    let at = |method: &str| text.find(method).expect("a request");
    assert!(at("session.cwd.set") < at("prompt.submit"));
}

#[tokio::test]
async fn a_hermes_that_cannot_change_its_directory_answers_and_the_person_is_told() {
    let home = Home::new();
    let (daemon, _) = hermes(&home, false);
    let client = daemon.client().await;
    let project = directory(&home, "project");
    open_in(&client, None, &project).await;
    let turn = say(&client, "one").await.unwrap();
    assert_eq!(turn.reply, "Done.");
    let note = turn.note.expect("a note");
    assert!(note.contains(project.to_str().unwrap()), "{note}");
}

#[tokio::test]
async fn an_agent_without_files_answers_although_the_directory_is_gone() {
    let home = Home::new();
    let daemon = home.start();
    let client = daemon.client().await;
    let project = directory(&home, "project");
    let id = open_in(&client, None, &project).await.session.id;
    std::fs::remove_dir(&project).unwrap();
    assert_eq!(say(&client, "one").await.unwrap().error, None);
    let sql = "SELECT cwd FROM sessions WHERE id = ?1";
    let kept = home
        .sqlite()
        .query_row(sql, [&id], |row| row.get::<_, String>(0));
    assert_eq!(kept.unwrap(), project.to_str().unwrap());
}
