use crate::config::platform_settings::{
    AGENT, ENABLED, HOME_CHANNEL, HOME_CHANNEL_NAME, HOME_CHANNEL_THREAD, HOME_CHANNEL_USER,
};
use crate::config::{AccessRules, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec};

/// The control socket checks access, and Hermes does not know this platform, so it has few settings.
pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: super::NAME,
    thread_word: "thread",
    settings: SETTINGS,
    credentials: &[&[]],
    enabled_by: &[],
    access: AccessRules {
        is_private_chat: |_| false,
        groups: GroupRule::All,
        offers_pairing: true,
        people_have_aliases: false,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: None,
        files: Some(0),
    },
    shared_block_has_extra: false,
    setup: &[],
    manifest: None,
};

const SETTINGS: &[SettingSpec] = &[
    ENABLED
        .help("Switches the embedded platform on or off.")
        .hermes(&[])
        .default("true"),
    HOME_CHANNEL.env(&[]).hermes(&[]).default("home"),
    HOME_CHANNEL_NAME.env(&[]).hermes(&[]),
    HOME_CHANNEL_THREAD.env(&[]).hermes(&[]),
    HOME_CHANNEL_USER.hermes(&[]),
    AGENT,
];
