//! Hermes' own files as its users write them: who they let in, which platforms they switch on, and whose sessions are whose.

use std::collections::BTreeMap;

use hermesd::config::{self, Config, Overrides};
use hermesd::domain::{ChatType, Source, session_key};
use hermesd::inbound::{AccessPolicy, Rank};

use crate::support::Home;

/// The configuration of a home with these two files.
fn config(home: &Home, env: &str, yaml: &str) -> Config {
    home.write(".env", env);
    home.write("config.yaml", yaml);
    load(home, home.path().to_owned())
}

fn load(home: &Home, path: std::path::PathBuf) -> Config {
    let overrides = Overrides {
        home: Some(path),
        ..Overrides::default()
    };
    let user = home.path().display().to_string();
    let environment = BTreeMap::from([("HOME".to_owned(), user)]);
    config::load_with(hermesd::platform::schema(), &overrides, &environment)
        .expect("a configuration")
}

fn private(platform: &str, user: &str) -> Source {
    Source {
        user_id: Some(user.to_owned()),
        ..Source::new(platform, ChatType::Dm, user)
    }
}

fn group(platform: &str, chat: &str, user: &str) -> Source {
    Source {
        user_id: Some(user.to_owned()),
        ..Source::new(platform, ChatType::Group, chat)
    }
}

/// The ranks that people have. `None`: they may not talk.
fn ranks(env: &str, yaml: &str, sources: &[Source]) -> Vec<Option<Rank>> {
    let home = Home::new();
    ranks_at(&home, env, yaml, sources)
}

fn ranks_at(home: &Home, env: &str, yaml: &str, sources: &[Source]) -> Vec<Option<Rank>> {
    let doors = AccessPolicy::new(&config(home, env, yaml));
    let store = home.store();
    let rank = |source| doors.rank(&store, source).expect("a rank");
    sources.iter().map(rank).collect()
}

const OWNER: Option<Rank> = Some(Rank::Owner);
const USER: Option<Rank> = Some(Rank::AllowedUser);
const GUEST: Option<Rank> = Some(Rank::Guest);

const ME: &str = "+15557654321";
const OTHER: &str = "+15550009999";

#[test]
fn signals_list_of_groups_lets_no_member_in() {
    let people = [
        private("signal", ME),
        group("signal", "group:xYz0/abc+DEF=", ME),
        group("signal", "group:xYz0/abc+DEF=", OTHER),
        group("signal", "group:other=", ME),
        private("signal", OTHER),
    ];
    let env = |groups: &str| {
        format!(
            "SIGNAL_HTTP_URL=http://127.0.0.1:8080\nSIGNAL_ACCOUNT=+15550001111\nSIGNAL_ALLOWED_USERS={ME}\n{groups}"
        )
    };
    let all = env("SIGNAL_GROUP_ALLOWED_USERS=*\n");
    assert_eq!(ranks(&all, "", &people), [OWNER, OWNER, None, OWNER, None]);
    let one = env("SIGNAL_GROUP_ALLOWED_USERS=xYz0/abc+DEF=\n");
    assert_eq!(ranks(&one, "", &people), [OWNER, OWNER, None, None, None]);
    assert_eq!(
        ranks(&env(""), "", &people),
        [OWNER, None, None, None, None]
    );
}

#[test]
fn whatsapps_list_of_groups_counts_under_its_policy_and_lets_no_member_in() {
    let (listed, unlisted) = ("120363012345678901@g.us", "120363000000000000@g.us");
    let (me, other) = ("15557654321@s.whatsapp.net", "15550009999@s.whatsapp.net");
    let people = [
        group("whatsapp", listed, me),
        group("whatsapp", listed, other),
        group("whatsapp", unlisted, me),
        private("whatsapp", me),
    ];
    let env = "WHATSAPP_ENABLED=true\nWHATSAPP_ALLOWED_USERS=15557654321\n";
    let yaml = |policy: &str| {
        format!("whatsapp:\n  group_policy: {policy}\n  group_allow_from:\n    - {listed}\n")
    };
    let found = |policy| ranks(env, &yaml(policy), &people);
    assert_eq!(found("allowlist"), [OWNER, None, None, OWNER]);
    assert_eq!(found("open"), [OWNER, None, OWNER, OWNER]);
    for policy in ["pairing", "disabled", "something-new"] {
        assert_eq!(found(policy), [None, None, None, OWNER], "{policy}");
    }
    // Without a list of people, Hermes takes the members of a listed group.
    let found = ranks("WHATSAPP_ENABLED=true\n", &yaml("allowlist"), &people);
    assert_eq!(found, [GUEST, GUEST, None, None]);
}

#[test]
fn the_lists_for_groups_of_other_platforms_are_not_ours() {
    for platform in ["discord", "slack", "matrix"] {
        let upper = platform.to_uppercase();
        let env = format!(
            "{upper}_ALLOWED_USERS=1,2\n{upper}_GROUP_ALLOWED_USERS=*\n{upper}_GROUP_ALLOWED_CHATS=C0\n"
        );
        let yaml = format!("{platform}:\n  group_allow_from: ['*']\n  group_allowed_chats: [C0]\n");
        let people = [group(platform, "C0", "9"), group(platform, "C0", "1")];
        assert_eq!(ranks(&env, &yaml, &people), [None, USER], "{platform}");
    }
    // On Telegram they hold what their names say.
    let env = "TELEGRAM_ALLOWED_USERS=1,2\nTELEGRAM_GROUP_ALLOWED_USERS=3\nTELEGRAM_GROUP_ALLOWED_CHATS=-5\n";
    let people = [
        group("telegram", "-6", "3"),
        group("telegram", "-5", "9"),
        group("telegram", "-6", "9"),
    ];
    assert_eq!(ranks(env, "", &people), [GUEST, GUEST, None]);
}

#[test]
fn allow_from_grants_where_hermes_lets_it() {
    for (platform, grants) in [
        ("discord", true),
        ("whatsapp", true),
        ("whatsapp_cloud", true),
        ("slack", false),
        ("signal", false),
        ("matrix", false),
    ] {
        let yaml =
            format!("platforms:\n  {platform}:\n    extra:\n      allow_from: ['42', '43']\n");
        let found = ranks("", &yaml, &[private(platform, "42")]);
        assert_eq!(found, [grants.then_some(Rank::AllowedUser)], "{platform}");
        // The environment comes first.
        let env = format!("{}_ALLOWED_USERS=7\n", platform.to_uppercase());
        let found = ranks(
            &env,
            &yaml,
            &[private(platform, "42"), private(platform, "7")],
        );
        assert_eq!(found, [None, OWNER], "{platform}");
    }
    let yaml = "matrix:\n  allowed_users:\n    - '@ann:example.org'\n";
    let people = ["@ann:example.org", "@bob:example.org"].map(|id| private("matrix", id));
    assert_eq!(ranks("", yaml, &people), [OWNER, None]);
}

#[test]
fn strangers_get_a_code_only_where_hermes_gives_one() {
    let policy = |word: &str| format!("discord:\n  dm_policy: {word}\n");
    let own = |word: &str| format!("discord:\n  unauthorized_dm_behavior: {word}\n");
    let (nobody, listed) = ("", "DISCORD_ALLOWED_USERS=1\n");
    let everywhere = "GATEWAY_ALLOWED_USERS=1\n";
    let ignore = "unauthorized_dm_behavior: ignore\n";
    for (env, yaml, pairs) in [
        (nobody, String::new(), true),
        (listed, String::new(), false),
        (everywhere, String::new(), false),
        (nobody, "discord:\n  allow_from: [1]\n".into(), false),
        // Another platform's list says nothing.
        ("TELEGRAM_ALLOWED_USERS=1\n", String::new(), true),
        (listed, policy("pairing"), true),
        (nobody, policy("allowlist"), false),
        (nobody, policy("disabled"), false),
        (nobody, policy("open"), true),
        (listed, policy("open"), false),
        (nobody, ignore.into(), false),
        (nobody, format!("gateway:\n  {ignore}"), false),
        // A global "pair" is no more than the default.
        (listed, "unauthorized_dm_behavior: pair\n".into(), false),
        (nobody, format!("{ignore}{}", policy("pairing")), false),
        (listed, format!("{ignore}{}", own("pair")), true),
        (nobody, own("ignore"), false),
        (nobody, own("nonsense"), true),
    ] {
        let home = Home::new();
        let config = config(&home, env, &yaml);
        let discord = config.platform("discord").expect("it");
        assert_eq!(discord.access.pairing, pairs, "{env:?} {yaml:?}");
    }
    // There Hermes gives no codes unless a policy says so.
    for (yaml, pairs) in [
        ("", false),
        ("whatsapp_cloud:\n  dm_policy: pairing\n", true),
    ] {
        let home = Home::new();
        let config = config(&home, "", yaml);
        let cloud = config.platform("whatsapp_cloud").expect("it");
        assert_eq!(cloud.access.pairing, pairs, "{yaml:?}");
    }
    // What is said in our own file counts for all platforms, both ways.
    let home = Home::new();
    home.write(
        ".config/hermesd/hermesd.toml",
        "chats.strangers = \"pair\"\n",
    );
    let config = config(&home, listed, "");
    assert!(config.platform("discord").expect("it").access.pairing);
}

#[test]
fn pairing_files_of_both_places_count_and_know_every_id_of_a_person() {
    let home = Home::new();
    let approved = |id: &str| format!(r#"{{"{id}": {{"user_name": "Ann", "approved_at": 1.0}}}}"#);
    home.write(
        "pairing/whatsapp-approved.json",
        &approved("15551234567@s.whatsapp.net"),
    );
    home.write(
        "platforms/pairing/whatsapp-approved.json",
        &approved("15557777777"),
    );
    home.write(
        "whatsapp/session/lid-mapping-999999999999999_reverse.json",
        "\"15551234567\"",
    );
    let people = [
        "15551234567@s.whatsapp.net",
        "15551234567:12@s.whatsapp.net",
        "999999999999999@lid",
        "15557777777@s.whatsapp.net",
        "15550000000@s.whatsapp.net",
        "999999999999998@lid",
    ];
    let people = people.map(|id| private("whatsapp", id));
    let found = ranks_at(&home, "WHATSAPP_ENABLED=true\n", "", &people);
    assert_eq!(found, [GUEST, GUEST, GUEST, GUEST, None, None]);
}

#[tokio::test]
async fn a_person_whom_we_paired_on_whatsapp_is_known_by_every_id() {
    let home = Home::new();
    home.write(
        "platforms/whatsapp/session/lid-mapping-15551234567.json",
        "\"999999999999999\"",
    );
    let config = config(&home, "WHATSAPP_ENABLED=true\n", "");
    let (doors, store) = (AccessPolicy::new(&config), home.store());
    let number = private("whatsapp", "15551234567@s.whatsapp.net");
    let lid = private("whatsapp", "999999999999999@lid");
    let note = store.ask_to_pair(&number, str::to_owned).await.unwrap();
    let code = note.expect("a code").text;
    assert_eq!(doors.rank(&store, &lid).unwrap(), None);
    store.approve(&code, "in").await.unwrap().expect("a person");
    for source in [&number, &lid] {
        assert_eq!(doors.rank(&store, source).unwrap(), GUEST, "{source:?}");
    }
    let other = private("whatsapp", "888@lid");
    assert_eq!(doors.rank(&store, &other).unwrap(), None);
}

#[test]
fn a_token_in_hermes_files_alone_switches_nothing_on() {
    let token = |more: &str| format!("platforms:\n  discord:\n    token: abcdef\n{more}");
    let enabled = |env: &str, yaml: &str| {
        let home = Home::new();
        let config = config(&home, env, yaml);
        config.platform("discord").expect("it").enabled
    };
    let in_env = "DISCORD_BOT_TOKEN=abcdef\n";
    assert!(!enabled("", &token("")));
    assert!(enabled("", &token("    enabled: true\n")));
    assert!(enabled("", &token("discord:\n  enabled: true\n")));
    assert!(enabled(in_env, ""));
    assert!(enabled(in_env, &token("")));
    assert!(!enabled(in_env, &token("    enabled: false\n")));

    let home = Home::new();
    home.write(
        "gateway.json",
        r#"{"platforms": {"telegram": {"token": "1:xyz"}}}"#,
    );
    drop(home.store());
    let listed = home.hermesctl(&["--json", "platforms"]).json();
    let mut listed = listed.as_array().expect("a list").iter();
    let telegram = listed.find(|p| p["name"] == "telegram").expect("it");
    assert_eq!(telegram["state"], "off");
    let detail = telegram["detail"].as_str().expect("a reason");
    assert!(detail.contains("platforms.telegram.enabled"), "{detail}");
}

#[test]
fn profiles_are_named_after_the_home_when_they_are_multiplexed() {
    let home = Home::new();
    let root = home.path().join(".hermes");
    for (path, profile) in [
        (root.clone(), "main"),
        (root.join("profiles/work"), "work"),
        (home.path().join("elsewhere"), "custom"),
    ] {
        std::fs::create_dir_all(&path).unwrap();
        let source = private("telegram", "7");
        let key = |env: &str, yaml: &str| {
            std::fs::write(path.join(".env"), env).unwrap();
            std::fs::write(path.join("config.yaml"), yaml).unwrap();
            session_key(&source, &load(&home, path.clone()).keys)
        };
        let multiplexed = format!("agent:{profile}:telegram:dm:7");
        let plain = "agent:main:telegram:dm:7";
        assert_eq!(key("", "multiplex_profiles: true\n"), multiplexed);
        assert_eq!(
            key("", "gateway:\n  multiplex_profiles: true\n"),
            multiplexed
        );
        assert_eq!(key("", ""), plain);
        let (on, off) = (
            "GATEWAY_MULTIPLEX_PROFILES=1\n",
            "GATEWAY_MULTIPLEX_PROFILES=0\n",
        );
        assert_eq!(key(on, ""), multiplexed);
        assert_eq!(key(off, "multiplex_profiles: true\n"), plain);
    }
}

/// What Hermes has written of a chat stays when a session is bound to it.
#[tokio::test]
async fn an_origin_keeps_what_only_hermes_knows() {
    let home = Home::new();
    let store = home.store();
    let source = Source {
        thread_id: Some("301".into()),
        ..Source::new("discord", ChatType::Thread, "301")
    };
    let key = "agent:main:discord:thread:301:301";
    store.bind_fresh_session(key, &source).await.expect("bound");
    let database = home.sqlite();
    database
        .execute(
            "UPDATE gateway_routing SET entry_json = json_set(entry_json, '$.origin.auto_thread_created', json('true'),
             '$.origin.auto_thread_initial_name', 'Plans', '$.origin.chat_id_alt', 'alt')",
            [],
        )
        .expect("written");
    store.start_anew(key, &source).await.expect("anew");
    for sql in [
        "SELECT json_extract(entry_json, '$.origin') FROM gateway_routing",
        "SELECT origin_json FROM sessions WHERE ended_at IS NULL",
    ] {
        let origin: String = database.query_row(sql, [], |row| row.get(0)).expect(sql);
        let origin: serde_json::Value = serde_json::from_str(&origin).expect("JSON");
        assert_eq!(origin["auto_thread_created"], true, "{sql}");
        assert_eq!(origin["auto_thread_initial_name"], "Plans", "{sql}");
        assert_eq!(origin["chat_id_alt"], "alt", "{sql}");
    }
}
