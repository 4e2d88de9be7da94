//! Which agents there are, and which one answers where.

use serde_json::Value;

use crate::agent::openai::one;
use crate::support::endpoint::{Endpoint, MODEL};
use crate::support::{Home, Ran};

/// An agent that is no other.
const COMMAND: (&str, &str) = ("HERMESD_AGENTS_COMMAND_COMMAND", "echo I am the program.");
const PROGRAM: &str = "I am the program.";

fn fails(ran: &Ran, code: i32, words: &str) {
    assert_eq!(ran.code, code, "{ran:?}");
    assert!(ran.stderr.contains(words), "{words}: {ran:?}");
}

#[tokio::test]
async fn without_any_setting_echo_answers() {
    let home = Home::new();
    assert_eq!(home.hermesctl(&["agents"]).code, 6, "nobody to ask");
    let _daemon = home.start();
    let agents = home.hermesctl(&["--json", "agents"]).json();
    let of = |name: &str| -> Value {
        let agents = agents.as_array().unwrap().iter();
        agents.clone().find(|a| a["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("echo")["ready"], &of("echo")["default"]),
        (&true.into(), &true.into())
    );
    for (name, remedy) in [
        ("openai", "agents.openai.base_url"),
        ("command", "agents.command.command"),
    ] {
        let agent = of(name);
        assert_eq!(
            (&agent["ready"], &agent["default"]),
            (&false.into(), &false.into())
        );
        assert!(
            agent["detail"].as_str().unwrap().contains(remedy),
            "{agent}"
        );
    }
    let talk = home.talk(&[], "hello\n");
    assert!(talk.replies()[0].starts_with("You said: hello"), "{talk:?}");
}

#[tokio::test]
async fn the_agents_are_listed_for_people_too() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    let ran = home.hermesctl(&["agents"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let line = |name: &str| ran.stdout.lines().find(|l| l.starts_with(name)).unwrap();
    let openai = line("openai");
    assert!(
        openai.contains("ready, the default") && openai.contains(MODEL),
        "{ran:?}"
    );
    assert!(line("command").contains("not ready"), "{ran:?}");
    assert!(
        line("command").contains("set agents.command.command"),
        "{ran:?}"
    );
    assert_eq!(home.hermesctl(&["agents", "list"]).stdout, ran.stdout);
}

#[tokio::test]
async fn an_agent_is_tried_out_without_leaving_a_trace() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[("HERMESD_AGENTS_COMMAND_COMMAND", "false")]);
    let ran = home.hermesctl(&["agents", "test", "openai"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for words in ["openai answers", MODEL, "ms", "I was given 1 messages."] {
        assert!(ran.stdout.contains(words), "{words}: {ran:?}");
    }
    let ran = home.hermesctl(&["--json", "agents", "test", "openai"]);
    let test = ran.json();
    assert_eq!(
        (&test["agent"], &test["error"]),
        (&"openai".into(), &Value::Null)
    );
    assert!(test["whole"].as_f64().unwrap() > 0.0, "{test}");

    let ran = home.hermesctl(&["agents", "test", "command"]);
    fails(&ran, 4, "exit status: 1");
    let ran = home.hermesctl(&["--json", "agents", "test", "command"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (4, ""), "{ran:?}");
    assert!(
        ran.json()["error"]
            .as_str()
            .unwrap()
            .contains("exit status: 1")
    );
    let unknown = home.hermesctl(&["agents", "test", "nobody"]);
    fails(&unknown, 3, "there is no agent called \"nobody\"");
    fails(&unknown, 3, "acp, command, echo, hermes, openai");
    let traces = "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM messages)
                       + (SELECT count(*) FROM hermesd_turns)";
    assert_eq!(one::<i64>(&home, traces), 0);
}

#[tokio::test]
async fn an_agent_that_is_not_ready_is_refused_with_what_it_lacks() {
    let home = Home::new();
    let daemon = home.start();
    fails(
        &home.hermesctl(&["agents", "test", "openai"]),
        3,
        "agents.openai.base_url",
    );
    assert!(daemon.stop().success());
    let _daemon = home.start_with(&[
        ("HERMESD_AGENTS_OPENAI_BASE_URL", "not an address"),
        ("HERMESD_AGENTS_OPENAI_MODEL", "m"),
    ]);
    fails(
        &home.hermesctl(&["agents", "test", "openai"]),
        3,
        "not an http or https address",
    );
    let status = home.hermesctl(&["--json", "status"]).json();
    assert_eq!(status["agent"], "echo");
}

#[tokio::test]
async fn the_agent_of_a_session_stays_with_it_over_restarts_and_handoffs() {
    let home = Home::new();
    let daemon = home.start_with(&[COMMAND]);
    let talk = home.talk(&["--agent", "command", "--title", "Talk"], "one\n");
    assert_eq!(talk.replies(), [PROGRAM]);
    assert!(daemon.stop().success());

    let _daemon = home.start_with(&[COMMAND]);
    let talk = home.talk(&["--resume", "Talk"], "two\n");
    assert_eq!(talk.replies(), [PROGRAM]);
    let ran = home.hermesctl(&["handoff", "local", "--session", "Talk"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(home.type_into("local/1", "three\n"), [PROGRAM, PROGRAM]);
    // Other sessions have their own.
    let other = home.talk(&[], "one\n");
    assert!(other.replies()[0].starts_with("You said"), "{other:?}");
    let talk = home.talk(&["--resume", "Talk", "--agent", "echo"], "four\n");
    assert!(talk.replies()[0].starts_with("You said: four"), "{talk:?}");
}

#[tokio::test]
async fn a_platform_may_have_an_agent_of_its_own() {
    let home = Home::new();
    let _daemon = home.start_with(&[COMMAND, ("HERMESD_PLATFORMS_LOCAL_AGENT", "command")]);
    let talk = home.talk(&["--title", "Talk"], "one\n");
    assert!(talk.replies()[0].starts_with("You said"), "{talk:?}");
    assert_eq!(home.type_into("local", "hello\n"), [PROGRAM]);
    let ran = home.hermesctl(&["handoff", "local", "--session", "Talk"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(home.type_into("local/1", "hello\n"), [PROGRAM, PROGRAM]);
}

#[tokio::test]
async fn an_agent_that_nobody_knows_is_refused_before_anything_is_written() {
    let home = Home::new();
    let _daemon = home.start();
    for (agent, words) in [
        ("nobody", "there is no agent"),
        ("openai", "is not available"),
    ] {
        let flags = ["chat", "--agent", agent, "--title", "Talk"];
        let ran = home.pipe_into_hermesctl("hello\n", &flags).end();
        fails(&ran, 3, words);
        fails(&ran, 3, "hermesctl agents");
    }
    let traces = "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM hermesd_agents)";
    assert_eq!(one::<i64>(&home, traces), 0);
}

#[tokio::test]
async fn a_session_in_which_nothing_was_said_is_remembered_with_no_agent() {
    let home = Home::new();
    let _daemon = home.start_with(&[COMMAND]);
    home.talk(&["--agent", "command"], "");
    let remembered = "SELECT count(*) FROM hermesd_agents";
    assert_eq!(one::<i64>(&home, remembered), 0);
}

#[tokio::test]
async fn a_titled_session_has_the_model_of_the_agent_that_was_chosen_for_it() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[("HERMESD_AGENT_DEFAULT", "echo")]);
    home.talk(&["--agent", "openai", "--title", "Talk"], "one\n");
    assert_eq!(one::<String>(&home, "SELECT model FROM sessions"), MODEL);
}

#[tokio::test]
async fn a_default_that_cannot_answer_says_so_and_takes_nothing_down() {
    let home = Home::new();
    let _daemon = home.start_with(&[("HERMESD_AGENT_DEFAULT", "openai")]);
    let ran = home.pipe_into_hermesctl("hello\n", &["chat"]).end();
    fails(&ran, 3, "agents.openai.base_url");
    assert_eq!(ran.stdout, "", "nothing was said");
    assert_eq!(one::<i64>(&home, "SELECT count(*) FROM sessions"), 0);
    let said = home.type_into("local", "hello\n");
    assert!(said[0].contains("agents.openai.base_url"), "{said:?}");
    let talk = home.talk(&["--agent", "echo"], "hello\n");
    assert!(talk.replies()[0].starts_with("You said"), "{talk:?}");
}
