//! Settings in Hermes' own files, read as Hermes reads them. Each row is a home with real files. What it expects is what
//! Hermes 0.20 makes of the same files, unless the row says otherwise.

use std::collections::BTreeMap;

use hermesd::config::{self, Config, Overrides};
use secrecy::ExposeSecret;

use crate::config::sources::{check, in_force, setting};
use crate::support::Home;

/// What a person has written, and where.
#[derive(Default, Clone, Copy)]
struct Written<'a> {
    env: &'a str,
    yaml: &'a str,
    json: &'a str,
    toml: &'a str,
    environment: &'a [(&'a str, &'a str)],
}

fn load(written: Written<'_>) -> Config {
    let home = Home::new();
    for (file, text) in [
        (".env", written.env),
        ("config.yaml", written.yaml),
        ("gateway.json", written.json),
        (".config/hermesd/hermesd.toml", written.toml),
    ] {
        if !text.is_empty() {
            home.write(file, text);
        }
    }
    let overrides = Overrides {
        home: Some(home.path().to_owned()),
        ..Overrides::default()
    };
    let user = home.path().display().to_string();
    let mut environment = BTreeMap::from([("HOME".to_owned(), user)]);
    for (name, value) in written.environment {
        environment.insert((*name).to_owned(), (*value).to_owned());
    }
    config::load_with(hermesd::platform::schema(), &overrides, &environment)
        .unwrap_or_else(|e| panic!("{e}: {:?} {:?}", written.env, written.yaml))
}

/// The value of a setting as `--check-config` shows it; empty where it is unset.
fn value(config: &Config, key: &str) -> String {
    let mut all = config.in_force();
    let row = all.find(|(found, ..)| *found == key);
    row.map_or(String::new(), |(_, value, _)| {
        value.to_string().replace('"', "")
    })
}

fn token(config: &Config, platform: &str) -> Option<String> {
    let platform = config.platform(platform)?;
    let token = platform
        .values
        .secret("token")
        .filter(|_| platform.has_credentials())?;
    Some(token.expose_secret().to_owned())
}

/// Telegram is on with this token, or off.
fn telegram(config: &Config) -> Option<String> {
    let telegram = config.platform("telegram").filter(|p| p.enabled)?;
    assert!(telegram.has_credentials(), "on without a token");
    token(config, "telegram")
}

/// Chat, name and thread of Telegram's home.
fn home(written: Written<'_>) -> Option<(String, Option<String>, Option<String>)> {
    let config = load(written);
    let home = config.platform("telegram")?.home_channel.clone()?;
    Some((home.chat_id, home.name, home.thread_id))
}

fn home_is(written: Written<'_>, chat: &str, name: Option<&str>, thread: Option<&str>) {
    let text = |part: Option<&str>| part.map(str::to_owned);
    let expected = Some((chat.to_owned(), text(name), text(thread)));
    assert_eq!(
        home(written),
        expected,
        "{:?} {:?}",
        written.env,
        written.yaml
    );
}

const TOKEN: &str = "TELEGRAM_BOT_TOKEN=12345:abc\n";
const SHELL: &[(&str, &str)] = &[("TELEGRAM_BOT_TOKEN", "99999:shell")];

#[test]
fn a_variable_comes_from_dotenv_then_the_environment_then_the_top_of_config_yaml() {
    let yaml = "TELEGRAM_BOT_TOKEN: 77777:top\n";
    let block = "platforms: {telegram: {enabled: true, token: '66666:block'}}\n";
    let both = format!("{yaml}{block}");
    let empty: &[_] = &[("TELEGRAM_BOT_TOKEN", "")];
    for (env, yaml, environment, expected) in [
        (TOKEN, &*both, SHELL, Some("12345:abc")),
        ("", &*both, SHELL, Some("99999:shell")),
        ("", &*both, &[], Some("77777:top")),
        ("", block, &[], Some("66666:block")),
        // An empty value hides the places behind it, not the blocks.
        ("TELEGRAM_BOT_TOKEN=\n", "", SHELL, None),
        ("TELEGRAM_BOT_TOKEN=\n", yaml, SHELL, None),
        ("TELEGRAM_BOT_TOKEN=\n", &*both, SHELL, Some("66666:block")),
        ("", yaml, empty, None),
        // A line without a value assigns nothing.
        ("TELEGRAM_BOT_TOKEN\n", "", SHELL, Some("99999:shell")),
        (
            "A=12345\nTELEGRAM_BOT_TOKEN=${A}:abc\n",
            "",
            SHELL,
            Some("12345:abc"),
        ),
    ] {
        let config = load(Written {
            env,
            yaml,
            environment,
            ..Written::default()
        });
        assert_eq!(telegram(&config).as_deref(), expected, "{env:?} {yaml:?}");
    }
}

#[test]
fn hermesds_own_sources_come_before_all_of_hermes() {
    let toml = "platforms.telegram.token = \"11111:toml\"\n";
    let own: &[_] = &[
        ("TELEGRAM_BOT_TOKEN", "99999:shell"),
        ("HERMESD_PLATFORMS_TELEGRAM_TOKEN", "22222:own"),
    ];
    let all = Written {
        env: TOKEN,
        toml,
        environment: SHELL,
        ..Written::default()
    };
    assert_eq!(telegram(&load(all)).as_deref(), Some("11111:toml"));
    let all = Written {
        environment: own,
        ..all
    };
    assert_eq!(telegram(&load(all)).as_deref(), Some("22222:own"));
    // In .env hermesd's own name is one of Hermes' sources, and the first of them.
    let env = "TELEGRAM_BOT_TOKEN=12345:abc\nHERMESD_PLATFORMS_TELEGRAM_TOKEN=33333:env\n";
    let found = load(Written {
        env,
        environment: SHELL,
        ..Written::default()
    });
    assert_eq!(telegram(&found).as_deref(), Some("33333:env"));
    let found = load(Written {
        env,
        toml,
        ..Written::default()
    });
    assert_eq!(telegram(&found).as_deref(), Some("11111:toml"));
    // At the top of config.yaml it is none.
    let yaml = "HERMESD_PLATFORMS_TELEGRAM_TOKEN: 44444:yaml\n";
    assert_eq!(
        telegram(&load(Written {
            yaml,
            ..Written::default()
        })),
        None
    );
}

#[test]
fn plain_values_at_the_top_of_config_yaml_are_variables() {
    let yaml = "TELEGRAM_BOT_TOKEN: ${MY_TOKEN}\nTELEGRAM_HOME_CHANNEL: -100\nTELEGRAM_REQUIRE_MENTION: true\n\
                TELEGRAM_ALLOWED_USERS: 42\nGATEWAY_ALLOWED_USERS: 1,2\nTELEGRAM_ALLOW_ALL_USERS: yes\n\
                TELEGRAM_FREE_RESPONSE_CHATS: [1, 2]\n";
    let environment: &[_] = &[("MY_TOKEN", "12345:abc")];
    let config = load(Written {
        yaml,
        environment,
        ..Written::default()
    });
    assert_eq!(telegram(&config).as_deref(), Some("12345:abc"));
    for (key, expected) in [
        ("platforms.telegram.home_channel", "-100"),
        ("platforms.telegram.require_mention", "true"),
        ("platforms.telegram.allowed_users", "[42]"),
        ("platforms.telegram.allow_everyone", "true"),
        ("chats.allowed_users", "[1, 2]"),
        // A list is no plain value.
        ("platforms.telegram.free_chats", ""),
    ] {
        assert_eq!(value(&config, key), expected, "{key}");
    }
}

#[test]
fn references_are_expanded_outside_of_platform_blocks_only() {
    let yaml = "platforms: {telegram: {enabled: true, token: '${MY_TOKEN}'}}\n\
                model: {default: m, base_url: 'https://${MY_HOST}/v1', api_key: '${NOT_THERE}'}\n";
    let environment: &[_] = &[("MY_TOKEN", "12345:abc"), ("MY_HOST", "example.org")];
    let config = load(Written {
        yaml,
        environment,
        ..Written::default()
    });
    assert_eq!(telegram(&config).as_deref(), Some("${MY_TOKEN}"));
    let openai = config.agent.openai.expect("an endpoint");
    assert_eq!(openai.base_url, "https://example.org/v1");
    assert_eq!(
        openai.api_key.expect("a key").expose_secret(),
        "${NOT_THERE}"
    );
}

#[test]
fn for_some_settings_config_yaml_beats_the_environment_even_when_it_is_empty() {
    let env = format!(
        "{TOKEN}TELEGRAM_REQUIRE_MENTION=true\nTELEGRAM_FREE_RESPONSE_CHATS=5\nTELEGRAM_ALLOWED_CHATS=5\n\
         TELEGRAM_ALLOWED_USERS=5\nTELEGRAM_GROUP_ALLOWED_USERS=5\nTELEGRAM_GROUP_ALLOWED_CHATS=-5\n"
    );
    let from_env = ["true", "[5]", "[5]", "[5]", "[5]", "[-5]"];
    let (files, lists) = (["false", "[7]", "[8]"], ["[5]", "[5]", "[-5]"]);
    let empty = ["false", "[]", "[]"];
    let keys = "require_mention: false, free_response_chats: [7], allowed_chats: [8], \
                allow_from: [1, 5], group_allow_from: [2], group_allowed_chats: [-3]";
    let no_values =
        "require_mention: '', free_response_chats: '', allowed_chats: '', allow_from: ''";
    let nulls =
        "require_mention: null, free_response_chats: null, allowed_chats: null, allow_from: null";
    for (yaml, json, first) in [
        (String::new(), String::new(), &from_env[..3]),
        (format!("telegram: {{{keys}}}\n"), String::new(), &files),
        (format!("platforms: {{telegram: {{{keys}}}}}\n"), String::new(), &files),
        (format!("platforms: {{telegram: {{extra: {{{keys}}}}}}}\n"), String::new(), &files),
        (format!("telegram: {{{no_values}}}\n"), String::new(), &empty),
        (format!("telegram: {{{nulls}}}\n"), String::new(), &from_env[..3]),
        (
            String::new(),
            r#"{"platforms": {"telegram": {"extra": {"require_mention": false, "free_response_chats": "7", "allowed_chats": [8]}}}}"#.to_owned(),
            &files,
        ),
    ] {
        let config = load(Written { env: &env, yaml: &yaml, json: &json, ..Written::default() });
        let fields = ["require_mention", "free_chats", "only_chats"];
        let found = fields.map(|field| value(&config, &format!("platforms.telegram.{field}")));
        assert_eq!(found, *first, "{yaml} {json}");
        // The environment stays first for the others.
        let fields = ["allowed_users", "allowed_group_users", "allowed_chats"];
        let found = fields.map(|field| value(&config, &format!("platforms.telegram.{field}")));
        assert_eq!(found, lists, "{yaml} {json}");
    }
}

#[test]
fn people_on_telegram_need_to_be_in_both_of_hermes_lists() {
    for (variable, yaml, users) in [
        ("5,6", "telegram: {allow_from: [6, 7]}\n", "[6]"),
        ("5,6", "telegram: {allow_from: '*'}\n", "[5, 6]"),
        ("*", "telegram: {allow_from: [6, 7]}\n", "[6, 7]"),
        ("5,6", "telegram: {allow_from: []}\n", "[5, 6]"),
    ] {
        let env = format!("{TOKEN}TELEGRAM_ALLOWED_USERS={variable}\n");
        let config = load(Written {
            env: &env,
            yaml,
            ..Written::default()
        });
        assert_eq!(
            value(&config, "platforms.telegram.allowed_users"),
            users,
            "{variable} {yaml}"
        );
        // A list of ours is the only one that counts.
        let toml = "[platforms.telegram]\nallowed_users = [\"9\"]\n";
        let config = load(Written {
            env: &env,
            yaml,
            toml,
            ..Written::default()
        });
        assert_eq!(value(&config, "platforms.telegram.allowed_users"), "[9]");
    }
    let home = Home::new();
    home.write(".env", "TELEGRAM_ALLOWED_USERS=5\n");
    home.write("config.yaml", "telegram: {allow_from: [6]}\n");
    let ran = home.hermesd(&["--check-config"]);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("no entry in common"), "{ran:?}");
}

#[test]
fn the_policies_of_whatsapp_come_from_its_files_first() {
    let env = "WHATSAPP_ENABLED=1\nWHATSAPP_GROUP_POLICY=open\nWHATSAPP_DM_POLICY=Open\n";
    for (yaml, dm, group) in [
        ("", "open", "open"),
        (
            "whatsapp: {group_policy: Allowlist, dm_policy: ' Pairing '}\n",
            "pairing",
            "allowlist",
        ),
        (
            "whatsapp: {group_policy: '', dm_policy: ''}\n",
            "open",
            "open",
        ),
        // A word that nobody knows opens no group.
        ("whatsapp: {group_policy: some, dm_policy: some}\n", "", ""),
    ] {
        let config = load(Written {
            env,
            yaml,
            ..Written::default()
        });
        let found = |field| value(&config, &format!("platforms.whatsapp.{field}"));
        assert_eq!(
            (&*found("dm_policy"), &*found("group_policy")),
            (dm, group),
            "{yaml}"
        );
    }
}

#[test]
fn blocks_are_merged_in_hermes_order() {
    let gateway = "gateway: {platforms: {telegram: {token: '22222:nested', enabled: true, extra: {base_url: nested, require_mention: true}}}}\n";
    let platforms =
        "platforms: {telegram: {token: '11111:plat', extra: {require_mention: false}}}\n";
    let direct = "gateway: {telegram: {token: '44444:direct', extra: {base_url: direct}}}\n";
    let json = r#"{"platforms": {"telegram": {"token": "33333:json", "enabled": true, "extra": {"base_url": "json", "free_response_chats": [9]}}}}"#;
    let (top, both) = (
        "telegram: {extra: {base_url: top}}\n",
        format!("{gateway}{platforms}"),
    );
    for (yaml, expected) in [
        ("", ["33333:json", "json", "false", "[9]"]),
        (gateway, ["22222:nested", "nested", "true", "[9]"]),
        (platforms, ["11111:plat", "json", "false", "[9]"]),
        (&*both, ["11111:plat", "nested", "false", "[9]"]),
        (
            &*format!("{platforms}{direct}"),
            ["44444:direct", "direct", "false", "[9]"],
        ),
        (
            &*format!("{both}{top}"),
            ["11111:plat", "top", "false", "[9]"],
        ),
    ] {
        let config = load(Written {
            yaml,
            json,
            ..Written::default()
        });
        let of = |field| value(&config, &format!("platforms.telegram.{field}"));
        let token = telegram(&config).unwrap_or_default();
        let found = [
            token,
            of("base_url"),
            of("require_mention"),
            of("free_chats"),
        ];
        assert_eq!(found, expected, "{yaml}");
    }
}

#[test]
fn a_block_at_the_top_gives_enabled_and_the_shared_keys_only() {
    let yaml = "telegram: {enabled: true, token: '12345:abc', home_channel: {platform: telegram, chat_id: 1}, extra: {allow_from: [1]}}\n";
    let config = load(Written {
        yaml,
        ..Written::default()
    });
    let found = config.platform("telegram").expect("it");
    assert!(found.enabled && !found.has_credentials() && found.home_channel.is_none());
    assert_eq!(value(&config, "platforms.telegram.allowed_users"), "");
}

#[test]
fn shared_keys_come_from_one_block_and_then_from_extra() {
    let nested = "gateway: {platforms: {telegram: {allow_from: [4]}}}\n";
    let bare = "gateway: {platforms: {telegram: {dm_policy: pairing}}}\n";
    let platforms = "platforms: {telegram: {allow_from: [2], extra: {allow_from: [3]}}}\n";
    let top = "telegram: {allow_from: [1]}\n";
    let other = "telegram: {reactions: true}\n";
    let all = format!("{nested}{platforms}{top}");
    for (yaml, users) in [
        (&*all, "[1]"),
        (&*format!("{nested}{platforms}"), "[4]"),
        // The block below gateway.platforms is the one, though the key is not in it.
        (&*format!("{bare}{platforms}"), "[3]"),
        (&*format!("{other}{platforms}"), "[3]"),
        (platforms, "[2]"),
        (
            "gateway: {telegram: {allow_from: [2], extra: {allow_from: [3]}}}\n",
            "[3]",
        ),
        ("telegram: {allow_from: 42}\n", "[42]"),
        ("telegram: {allow_from: '1, 2'}\n", "[1, 2]"),
    ] {
        let config = load(Written {
            env: TOKEN,
            yaml,
            ..Written::default()
        });
        let found = value(&config, "platforms.telegram.allowed_users");
        assert_eq!(found, users, "{yaml}");
    }
    // In gateway.json only `extra` has them.
    let json = r#"{"platforms": {"telegram": {"allow_from": [9], "extra": {"allow_from": [8]}}}}"#;
    let config = load(Written {
        json,
        ..Written::default()
    });
    assert_eq!(value(&config, "platforms.telegram.allowed_users"), "[8]");
}

#[test]
fn require_mention_at_the_top_is_for_telegram_where_its_blocks_say_nothing() {
    let env = format!("{TOKEN}TELEGRAM_REQUIRE_MENTION=false\n");
    for (yaml, expected) in [
        ("require_mention: true\n", "true"),
        ("require_mention: null\n", "false"),
        (
            "require_mention: true\nplatforms: {telegram: {extra: {require_mention: false}}}\n",
            "false",
        ),
        (
            "require_mention: true\ntelegram: {require_mention: false}\n",
            "false",
        ),
    ] {
        let config = load(Written {
            env: &env,
            yaml,
            ..Written::default()
        });
        let found = value(&config, "platforms.telegram.require_mention");
        assert_eq!(found, expected, "{yaml}");
    }
}

#[test]
fn enabled_in_config_yaml_has_the_last_word() {
    let token = "platforms: {telegram: {token: '12345:abc'}}\n";
    for (env, yaml, json, on) in [
        (TOKEN, "", "", true),
        ("", token, "", false),
        (TOKEN, token, "", true),
        (TOKEN, "telegram: {enabled: false}\n", "", false),
        (
            TOKEN,
            "platforms: {telegram: {enabled: false}}\n",
            "",
            false,
        ),
        (TOKEN, "platforms: {telegram: {enabled: null}}\n", "", false),
        (
            TOKEN,
            "platforms: {telegram: {enabled: 'off'}}\n",
            "",
            false,
        ),
        (
            TOKEN,
            "telegram: {enabled: true}\nplatforms: {telegram: {enabled: false}}\n",
            "",
            true,
        ),
        (
            "",
            "platforms: {telegram: {enabled: 1, token: '12345:abc'}}\n",
            "",
            true,
        ),
        // In gateway.json a no is no more than the default.
        (
            TOKEN,
            "",
            r#"{"platforms": {"telegram": {"enabled": false}}}"#,
            true,
        ),
        (
            TOKEN,
            "",
            r#"{"platforms": {"telegram": {"enabled": null}}}"#,
            true,
        ),
        (
            "",
            token,
            r#"{"platforms": {"telegram": {"enabled": true}}}"#,
            true,
        ),
        (
            "",
            "",
            r#"{"platforms": {"telegram": {"enabled": false, "token": "12345:abc"}}}"#,
            false,
        ),
    ] {
        let config = load(Written {
            env,
            yaml,
            json,
            ..Written::default()
        });
        assert_eq!(telegram(&config).is_some(), on, "{env} {yaml} {json}");
    }
    for (yaml, env, on) in [
        (
            "platforms: {whatsapp: {enabled: false}}\n",
            "WHATSAPP_ENABLED=true\n",
            true,
        ),
        (
            "platforms: {whatsapp: {enabled: true}}\n",
            "WHATSAPP_ENABLED=no\n",
            false,
        ),
        ("platforms: {whatsapp: {enabled: true}}\n", "", true),
    ] {
        let config = load(Written {
            env,
            yaml,
            ..Written::default()
        });
        assert_eq!(
            config.platform("whatsapp").expect("it").enabled,
            on,
            "{yaml} {env}"
        );
    }
}

#[test]
fn a_home_channel_is_taken_whole_from_the_strongest_place() {
    let yaml = "platforms: {telegram: {home_channel: {platform: telegram, chat_id: 7, name: Yaml, thread_id: 9}}}\n";
    let json = r#"{"platforms": {"telegram": {"home_channel": {"platform": "telegram", "chat_id": "1", "name": "Json", "thread_id": "2"}}}}"#;
    let bare = "platforms: {telegram: {home_channel: {platform: telegram, chat_id: 7}}}\n";
    let env = format!("{TOKEN}TELEGRAM_HOME_CHANNEL=5\n");
    let w = Written {
        env: TOKEN,
        ..Written::default()
    };
    home_is(Written { yaml, ..w }, "7", Some("Yaml"), Some("9"));
    home_is(Written { json, ..w }, "1", Some("Json"), Some("2"));
    home_is(
        Written {
            yaml: bare,
            json,
            ..w
        },
        "7",
        None,
        None,
    );
    home_is(
        Written {
            env: &env,
            yaml,
            json,
            ..w
        },
        "5",
        None,
        None,
    );
    // The name of another source's channel is not this one's.
    let named =
        format!("{TOKEN}TELEGRAM_HOME_CHANNEL_NAME=Env\nTELEGRAM_HOME_CHANNEL_THREAD_ID=3\n");
    home_is(
        Written {
            env: &named,
            yaml,
            ..w
        },
        "7",
        Some("Yaml"),
        Some("9"),
    );
    // .env and the environment are one source.
    let environment: &[_] = &[("TELEGRAM_HOME_CHANNEL_NAME", "Shell")];
    home_is(
        Written {
            env: &env,
            yaml,
            environment,
            ..w
        },
        "5",
        Some("Shell"),
        None,
    );
    let null = "platforms: {telegram: {home_channel: null}}\n";
    assert_eq!(
        home(Written {
            yaml: null,
            json,
            ..w
        }),
        None
    );
    // Hermes stops at a mapping without `platform` and ignores plain text. hermesd takes both.
    home_is(
        Written {
            yaml: "platforms: {telegram: {home_channel: {chat_id: 7}}}\n",
            ..w
        },
        "7",
        None,
        None,
    );
    home_is(
        Written {
            yaml: "platforms: {telegram: {home_channel: '7'}}\n",
            ..w
        },
        "7",
        None,
        None,
    );
}

#[test]
fn the_person_of_a_home_channel_gets_handoffs_and_no_rights() {
    let yaml = "platforms: {telegram: {home_channel: {platform: telegram, chat_id: -100, user_id: 8, scope_id: T1}}}\n";
    let owner = |env: &str| {
        let env = format!("{TOKEN}{env}");
        let config = load(Written {
            env: &env,
            yaml,
            ..Written::default()
        });
        let telegram = config.platform("telegram").expect("it");
        let home = telegram.home_channel.clone().expect("a home");
        (home.owner, telegram.access.owner().map(str::to_owned))
    };
    assert_eq!(owner(""), (Some("8".into()), None));
    assert_eq!(
        owner("TELEGRAM_ALLOWED_USERS=1,2\n"),
        (Some("8".into()), None)
    );
    let one = Some("1".to_owned());
    assert_eq!(owner("TELEGRAM_ALLOWED_USERS=1\n"), (one.clone(), one));
}

#[test]
fn what_belongs_to_no_platform_is_at_the_top_or_below_gateway() {
    for (yaml, json, expected) in [
        (
            "group_sessions_per_user: 'off'\nthread_sessions_per_user: on\n",
            "",
            ["false", "true", "false", ""],
        ),
        (
            "gateway: {group_sessions_per_user: 0, multiplex_profiles: '1'}\n",
            "",
            ["false", "false", "true", ""],
        ),
        // A key at the top hides the one below gateway, though it says nothing.
        (
            "group_sessions_per_user: null\ngateway: {group_sessions_per_user: false}\n",
            "",
            ["true", "false", "false", ""],
        ),
        (
            "unauthorized_dm_behavior: nonsense\ngateway: {unauthorized_dm_behavior: ignore}\n",
            "",
            ["true", "false", "false", ""],
        ),
        (
            "unauthorized_dm_behavior: IGNORE\n",
            "",
            ["true", "false", "false", "ignore"],
        ),
        (
            "",
            r#"{"group_sessions_per_user": false, "gateway": {"thread_sessions_per_user": true, "multiplex_profiles": true}}"#,
            ["false", "false", "true", ""],
        ),
    ] {
        let config = load(Written {
            yaml,
            json,
            ..Written::default()
        });
        let found = [
            "sessions.group_per_user",
            "sessions.thread_per_user",
            "sessions.multiplex_profiles",
            "chats.strangers",
        ];
        assert_eq!(
            found.map(|key| value(&config, key)),
            expected,
            "{yaml} {json}"
        );
    }
}

#[test]
fn approvals_wait_as_long_as_hermes_does() {
    for (yaml, expected) in [
        ("", "5m"),
        ("approvals: {mode: smart, timeout: 900}\n", "15m"),
        ("approvals: {timeout: soon}\n", "5m"),
        ("approvals: {timeout: 0}\n", "5m"),
    ] {
        let config = load(Written {
            yaml,
            ..Written::default()
        });
        assert_eq!(value(&config, "agent.question_timeout"), expected, "{yaml}");
    }
}

#[test]
fn a_placeholder_is_no_token_and_everybody_says_so() {
    let home = Home::new();
    drop(home.store());
    home.write(".env", "# copied\nTELEGRAM_BOT_TOKEN=your-token\n");
    home.write("config.yaml", "platforms: {telegram: {enabled: true}}\n");
    let place = home.path().join(".env").display().to_string();
    let note = format!("its token is only a placeholder: set the real value ({place}:2)");

    let line = format!("telegram is off: {note}");
    assert_eq!(in_force(&home, &[])["warnings"], serde_json::json!([line]));
    let text = check(&home, &[], &[]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(
        text.stdout.ends_with(&format!("\nwarning: {line}\n")),
        "{text:?}"
    );

    let platforms = home.hermesctl(&["--json", "platforms"]).json();
    let mut platforms = platforms.as_array().expect("a list").iter();
    let telegram = platforms.find(|p| p["name"] == "telegram").expect("it");
    assert_eq!(telegram["state"], "off");
    assert_eq!(telegram["detail"], *note);

    let doctor = home.hermesctl(&["--json", "doctor"]);
    let report = doctor.json();
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let finding = findings.find(|f| f["what"] == "telegram").expect("it");
    assert_eq!(finding["grade"], "bad");
    assert_eq!(finding["detail"], format!("off: {note}"));

    // A daemon starts, and says the same.
    let _daemon = home.start();
    let platforms = home.hermesctl(&["platforms"]);
    assert!(
        platforms.stdout.contains("only a placeholder"),
        "{platforms:?}"
    );
    home.write(".env", "TELEGRAM_BOT_TOKEN=12345:abc\n");
    assert_eq!(in_force(&home, &[])["warnings"], serde_json::json!([]));
}

#[test]
fn check_config_shows_which_of_hermes_places_counts() {
    let home = Home::new();
    home.write(".env", "TELEGRAM_BOT_TOKEN=12345:SECRET\n");
    home.write(
        "config.yaml",
        "SLACK_BOT_TOKEN: xoxb-SECRET\ntelegram:\n  require_mention: false\ngateway:\n  platforms:\n    discord: {token: SECRET}\n",
    );
    let environment = [
        ("TELEGRAM_BOT_TOKEN", "99999:SECRET"),
        ("TELEGRAM_REQUIRE_MENTION", "true"),
    ];
    let shown = in_force(&home, &environment);
    assert!(!shown.to_string().contains("SECRET"), "{shown}");
    let at = |file: &str| home.path().join(file).display().to_string();
    let yaml = at("config.yaml");
    for (key, value, from) in [
        (
            "telegram.token",
            "\"********\"",
            format!("{}:1", at(".env")),
        ),
        (
            "telegram.require_mention",
            "false",
            format!("{yaml}: telegram.require_mention"),
        ),
        (
            "slack.token",
            "\"********\"",
            format!("{yaml}: SLACK_BOT_TOKEN"),
        ),
        (
            "discord.token",
            "\"********\"",
            format!("{yaml}: gateway.platforms.discord.token"),
        ),
    ] {
        let found = setting(&shown, &format!("platforms.{key}"));
        assert_eq!(found, Some((value.to_owned(), from)), "{key}");
    }
}
