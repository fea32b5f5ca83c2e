// The language of the portal: what the user chose, or what the browser asks for.
import { i18n, type Messages } from "@lingui/core";

export const LANGUAGES = { en: "English", zh: "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;
const KEPT = "pai-language";

const CATALOGS: Record<Language, () => Promise<{ messages: Messages }>> = {
  en: () => import("@/locales/en"),
  zh: () => import("@/locales/zh"),
};

export function preferred(): Language {
  const chosen = localStorage.getItem(KEPT) ?? navigator.language;
  return chosen.startsWith("zh") ? "zh" : "en";
}

export async function activate(language: Language): Promise<void> {
  const { messages } = await CATALOGS[language]();
  i18n.loadAndActivate({ locale: language, messages });
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export async function choose(language: Language): Promise<void> {
  localStorage.setItem(KEPT, language);
  await activate(language);
}
