//! The one list of platforms. Each platform is a folder with a descriptor. A platform with an adapter also names its
//! `build` function.

use std::sync::{Arc, LazyLock};

use super::{AdapterContext, BuildError, Platform, local, telegram};
use super::{discord, matrix, signal, slack, whatsapp, whatsapp_cloud};
use crate::config::{Config, PlatformConfig, PlatformDescriptor, Schema};

macro_rules! platforms {
    ($($module:ident $(=> $build:path)?,)+) => {
        /// In the order of display.
        pub const NAMES: &[&str] = &[$($module::DESCRIPTOR.name),+];

        pub static DESCRIPTORS: &[&PlatformDescriptor] = &[$(&$module::DESCRIPTOR),+];

        /// The platforms that this build has an adapter for.
        const WITH_ADAPTER: &[&str] = &[$($(platforms!(@name $module $build),)?)+];

        /// Builds the adapter of a platform. `None`: this build has no adapter for it.
        ///
        /// A program that does not call this links no adapter.
        pub fn build(
            settings: &PlatformConfig,
            context: AdapterContext,
        ) -> Result<Option<Arc<dyn Platform>>, BuildError> {
            $($(
                if settings.name == $module::DESCRIPTOR.name {
                    return $build(settings, context).map(Some);
                }
            )?)+
            Ok(None)
        }
    };
    (@name $module:ident $build:path) => { $module::DESCRIPTOR.name };
}

platforms! {
    local => local::build,
    telegram => telegram::build,
    discord => discord::build,
    slack => slack::build,
    matrix,
    signal,
    whatsapp,
    whatsapp_cloud,
}

/// The platform's word for a thread.
pub fn thread_word(name: &str) -> &'static str {
    let descriptor = DESCRIPTORS.iter().find(|d| d.name == name);
    descriptor.map_or("chat", |descriptor| descriptor.thread_word)
}

pub fn has_adapter(name: &str) -> bool {
    WITH_ADAPTER.contains(&name)
}

/// The settings of hermesd and of all platforms.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::new(DESCRIPTORS));
    &SCHEMA
}

/// One sentence for each platform that the configuration enables and that has no adapter in this version.
pub fn unsupported(config: &Config) -> Vec<String> {
    let on = config.platforms.iter().filter(|p| p.enabled);
    on.filter(|p| !has_adapter(&p.name))
        .map(|p| format!("{} is off: {}", p.name, no_adapter(&p.name)))
        .collect()
}

pub(super) fn no_adapter(name: &str) -> String {
    format!(
        "this version of hermesd ({}) cannot speak to {name} yet",
        crate::VERSION
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::SettingSpec;

    fn names(specs: &[SettingSpec]) -> BTreeSet<&str> {
        specs.iter().map(|spec| spec.name).collect()
    }

    #[test]
    fn every_key_is_there_once() {
        let keys: BTreeSet<&str> = schema().settings().iter().map(|s| s.key.as_str()).collect();
        assert_eq!(keys.len(), schema().settings().len());
    }

    #[test]
    fn every_name_in_the_environment_belongs_to_one_setting() {
        let mut seen = BTreeSet::new();
        for setting in schema().settings() {
            for name in setting.env.iter().chain([&setting.own_env()]) {
                assert!(!name.contains(['{', '}']), "{name} of {}", setting.key);
                assert!(seen.insert(name.clone()), "{name} of {}", setting.key);
            }
        }
    }

    #[test]
    fn every_default_fits_its_kind() {
        for setting in schema().settings() {
            if let Some(default) = &setting.default {
                assert!(setting.takes(default), "{}: {default}", setting.key);
            }
        }
    }

    #[test]
    fn every_descriptor_names_settings_of_its_own_table() {
        for descriptor in DESCRIPTORS {
            let own = names(descriptor.settings);
            let credentials = descriptor.all_credentials().map(|c| c.setting);
            let switches = descriptor.enabled_by.iter().copied().flatten().copied();
            for name in credentials.chain(switches).chain(["enabled", "agent"]) {
                assert!(own.contains(name), "{}: {name}", descriptor.name);
            }
        }
    }

    #[test]
    fn every_platform_with_people_has_the_rows_that_decide_who_may_talk() {
        for descriptor in DESCRIPTORS.iter().filter(|d| d.name != local::NAME) {
            let own = names(descriptor.settings);
            for name in [
                "home_channel",
                "home_channel_name",
                "home_channel_thread",
                "home_channel_user",
                "allowed_users",
                "allowed_group_users",
                "allowed_chats",
                "allow_everyone",
                "owner",
                "trusted",
                "strangers",
                "dm_policy",
            ] {
                let row = descriptor.setting(name);
                assert!(own.contains(name), "{}: {name}", descriptor.name);
                assert!(
                    row.is_some_and(|row| row.for_daemon),
                    "{}: {name}",
                    descriptor.name
                );
            }
        }
    }

    #[test]
    fn a_secret_is_a_credential_of_its_platform() {
        for descriptor in DESCRIPTORS {
            for row in descriptor.settings.iter().filter(|row| row.secret) {
                let mut credentials = descriptor.all_credentials();
                assert!(
                    credentials.any(|c| c.setting == row.name),
                    "{}: {}",
                    descriptor.name,
                    row.name
                );
            }
        }
    }
}
