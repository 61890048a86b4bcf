//! Other words for the sections, a line a language: what agents write where they keep to the order but not to the words.
//! All in small letters. A word that could stand for two sections stands for none.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::SectionKind;

/// Words that name a section, separated by `; `.
const SECTION_NAMES: [(SectionKind, &[&str]); 13] = [
    (
        SectionKind::Problem,
        &[
            "problem statement; the problem; problem description",
            "problembeschreibung; problemstellung; das problem; aufgabe; aufgabenstellung",
            "problème; le problème; énoncé du problème; problématique",
            "problema; el problema; planteamiento; planteamiento del problema; descripción del problema",
            "o problema; descrição do problema; enunciado do problema",
            "il problema; descrizione del problema",
            "probleem; het probleem; probleemstelling",
            "opis problemu; zadanie",
            "проблема; задача; постановка задачи; описание проблемы",
            "постановка задачі; опис проблеми",
            "sorun; problem tanımı; sorun tanımı",
            "problemet; problembeskrivning",
            "问题; 问题描述; 问题陈述",
            "問題; 問題描述; 問題点; 課題",
            "문제; 문제 정의; 문제 설명",
        ],
    ),
    (
        SectionKind::Intent,
        &[
            "intent; user intent; goal; goals; session goal; session goals; user goal; objective; objectives; what the user wants",
            "ziel; ziele; sitzungsziel; ziel der sitzung; absicht; auftrag; was der nutzer will",
            "intention; intention de la session; intention de session; objectif; objectifs; objectif de la session; but; but de la session",
            "intención; intención de la sesión; objetivo; objetivos; objetivo de la sesión; lo que quiere el usuario",
            "intenção; intenção da sessão; objetivo da sessão; o que o usuário quer",
            "intento; intento della sessione; intenzione; obiettivo; obiettivi; obiettivo della sessione",
            "doel; doelen; doel van de sessie; sessiedoel; bedoeling",
            "cel; cele; cel sesji; intencja sesji; zamiar",
            "цель; цели; цель сессии; намерение; намерение сессии; чего хочет пользователь",
            "мета; мета сесії; ціль; цілі; ціль сесії; намір; намір сесії; чого хоче користувач",
            "amaç; oturum amacı; oturumun amacı; hedef; hedefler; oturum hedefi; niyet",
            "mål; sessionens mål; syfte; avsikt",
            "会话意图; 会话目标; 意图; 用户意图; 目标",
            "會話意圖; 意圖; 目標",
            "目的; セッションの目的; セッションの意図; セッション意図; 意図; ゴール",
            "목표; 세션 목표; 의도; 세션 의도; 목적; 세션 목적",
        ],
    ),
    (
        SectionKind::Container,
        &[
            "essentials; key information",
            "wesentliche informationen; wesentliches; wichtige informationen",
            "informations essentielles; l'essentiel",
            "información esencial; lo esencial",
            "informações essenciais; informação essencial",
            "informazioni essenziali",
            "essentiële informatie; belangrijke informatie",
            "kluczowe informacje; najważniejsze informacje; istotne informacje",
            "основная информация; важная информация; главное",
            "основна інформація; важлива інформація; головне",
            "temel bilgiler; önemli bilgiler",
            "väsentlig information; viktig information",
            "重要信息; 关键信息; 必要信息; 基本信息",
            "重要資訊; 關鍵資訊",
            "重要情報; 重要な情報; 必須情報",
            "핵심 정보; 필수 정보; 중요 정보; 주요 정보",
        ],
    ),
    (
        SectionKind::Decisions,
        &[
            "decision; user decisions; key decisions; decisions made; decisions so far; locked decisions",
            "entscheidungen; getroffene entscheidungen; beschlüsse; festlegungen",
            "décisions; décisions prises; choix",
            "decisiones; decisiones tomadas",
            "decisões; decisões tomadas",
            "decisioni; decisioni prese",
            "beslissingen; besluiten; keuzes",
            "decyzje; podjęte decyzje; ustalenia",
            "решения; принятые решения",
            "рішення; ухвалені рішення; прийняті рішення",
            "kararlar; alınan kararlar",
            "beslut",
            "决策; 决定; 已定决策; 已做决策",
            "決策; 決定; 決定事項; 決めたこと",
            "결정; 결정 사항; 결정사항",
        ],
    ),
    (
        SectionKind::Technical,
        &[
            "technical; tech context; tech stack; stack; technical details; technical background",
            "technik; technischer kontext; technischer hintergrund; technische umgebung; umgebung",
            "contexte technique; environnement; environnement technique",
            "contexto técnico; entorno; entorno técnico",
            "ambiente; ambiente técnico",
            "contesto tecnico; ambiente tecnico",
            "technische context; techniek; omgeving",
            "kontekst techniczny; technika; środowisko",
            "технический контекст; технические детали; техника; окружение; среда",
            "технічний контекст; технічні деталі; середовище; оточення",
            "teknik bağlam; teknik ortam; teknik bilgiler; ortam",
            "teknisk kontext; teknisk miljö; teknik; miljö",
            "技术上下文; 技术背景; 技术环境; 环境",
            "技術背景; 技術脈絡; 技術的背景; 技術コンテキスト; 技術的コンテキスト; 技術情報; 技術的な前提; 環境",
            "기술 컨텍스트; 기술 맥락; 기술 배경; 기술 환경; 기술 정보; 환경",
        ],
    ),
    (SectionKind::Breadcrumbs, &["breadcrumb; references for reconstruction"]),
    (
        SectionKind::PlayByPlay,
        &[
            "play by play; history; progress log; work log; timeline; actions taken",
            "verlauf; bisheriger verlauf; ablauf; chronologie; schritte; protokoll",
            "déroulement; déroulé; historique; étapes",
            "historial; cronología; desarrollo; pasos; paso a paso; bitácora",
            "histórico; cronologia; passo a passo; passos; andamento",
            "passo per passo; cronistoria; storia; passi; svolgimento",
            "verloop; verslag; stappen; stap voor stap; geschiedenis",
            "przebieg; przebieg prac; historia; chronologia; kroki; krok po kroku",
            "ход работы; ход работ; хронология; история; шаги; журнал; что сделано",
            "хід роботи; хід робіт; перебіг; хронологія; історія; кроки; що зроблено",
            "adım adım; adımlar; geçmiş; süreç; yapılanlar",
            "förlopp; händelseförlopp; historik; steg",
            "进展; 过程; 经过; 工作过程; 执行过程; 过程记录; 操作记录; 历程; 步骤",
            "進展; 過程; 經過; 步驟; 経過; 経緯; 作業経過; 作業履歴; 時系列; 履歴",
            "진행 내역; 진행 과정; 진행 경과; 경과; 작업 내역; 작업 이력; 이력",
        ],
    ),
    (
        SectionKind::Artifacts,
        &[
            "artifacts; artifact; files; files touched; files changed; changed files; modified files; file changes",
            "artefakte; dateien; geänderte dateien; betroffene dateien; bearbeitete dateien",
            "artefacts; fichiers; fichiers modifiés; fichiers touchés",
            "artefactos; archivos; archivos modificados; archivos tocados; ficheros",
            "artefatos; arquivos; arquivos alterados; ficheiros; ficheiros alterados",
            "artefatti; file toccati; file modificati",
            "artefacten; bestanden; gewijzigde bestanden",
            "artefakty; pliki; zmienione pliki",
            "артефакты; файлы; изменённые файлы; измененные файлы; затронутые файлы",
            "артефакти; файли; змінені файли",
            "dosyalar; değişen dosyalar; değiştirilen dosyalar",
            "filer; ändrade filer",
            "文件; 产出文件; 产物; 文件变更; 文件清单; 变更文件; 修改的文件; 涉及文件",
            "檔案; 變更檔案; 修改的檔案",
            "成果物; ファイル; 変更ファイル; 変更したファイル; アーティファクト",
            "산출물; 파일; 파일 목록; 변경 파일; 변경된 파일; 변경한 파일",
        ],
    ),
    (
        SectionKind::State,
        &[
            "state; status; current status; where we are; where things stand",
            "aktueller stand; stand; stand der dinge; aktueller zustand; derzeitiger stand; zustand",
            "état actuel; état; état courant; situation actuelle; où on en est",
            "estado actual; estado; situación actual",
            "estado atual; situação atual",
            "stato attuale; stato; situazione attuale",
            "huidige stand; huidige staat; huidige toestand; huidige situatie; stand van zaken",
            "stan obecny; obecny stan; stan aktualny; aktualny stan; bieżący stan; stan",
            "текущее состояние; состояние; текущее положение; положение дел; сейчас",
            "поточний стан; теперішній стан; нинішній стан; стан",
            "mevcut durum; şu anki durum; güncel durum; durum",
            "nuläge; aktuellt läge; nuvarande läge; läge",
            "当前状态; 目前状态; 现状; 状态",
            "當前狀態; 目前狀態; 現況; 狀態",
            "現在の状態; 現在の状況; 現状; 状態; 状況",
            "현재 상태; 현재 상황; 현황; 상태",
        ],
    ),
    (
        SectionKind::Next,
        &[
            "next; next steps; what's next; what comes next; to do; todo; remaining work; open tasks",
            "nächste schritte; nächste aufgaben; als nächstes; nächstes; offene punkte; wie es weitergeht",
            "prochaines étapes; prochaines actions; étapes suivantes; la suite; à faire",
            "próximos pasos; próximas acciones; siguientes pasos; siguientes acciones; pendientes; por hacer",
            "próximos passos; próximas ações; próximas acções; pendências; a fazer",
            "prossimi passi; prossime azioni; passi successivi; da fare",
            "volgende stappen; volgende acties; vervolgstappen; vervolg; te doen",
            "następne kroki; kolejne kroki; dalsze kroki; następne działania; co dalej; do zrobienia",
            "следующие шаги; следующие действия; дальнейшие шаги; дальнейшие действия; что дальше; дальше",
            "наступні кроки; наступні дії; подальші кроки; подальші дії; що далі; далі",
            "sonraki adımlar; sıradaki adımlar; sonraki işler; sonraki eylemler; yapılacaklar",
            "nästa steg; nästa åtgärder; att göra",
            "下一步; 下一步行动; 下一步计划; 后续步骤; 后续行动; 后续工作; 待办; 待办事项",
            "下一步行動; 後續步驟; 待辦事項",
            "次のアクション; 次の作業; 次の行動; 次のステップ; 次にやること; 今後の作業; 今後の予定",
            "다음 작업; 다음 단계; 다음 행동; 다음 할 일; 할 일; 향후 작업",
        ],
    ),
    (
        SectionKind::Rules,
        &[
            "rules; constraints; user constraints; user preferences; preferences",
            "regeln; benutzerregeln; nutzerregeln; regeln des nutzers; regeln des benutzers; regeln des auftraggebers; vorgaben",
            "règles; règles de l'utilisateur; règles utilisateur; consignes; contraintes",
            "reglas; reglas del usuario; normas; normas del usuario; restricciones",
            "regras; regras do usuário; regras do utilizador; restrições",
            "regole; regole dell'utente; vincoli",
            "regels; regels van de gebruiker; gebruikersregels; afspraken",
            "zasady; zasady użytkownika; reguły; reguły użytkownika; ograniczenia",
            "правила; правила пользователя; требования пользователя; ограничения",
            "правила користувача; вимоги користувача; обмеження",
            "kurallar; kullanıcı kuralları; kullanıcının kuralları; kısıtlar",
            "regler; användarregler; användarens regler",
            "规则; 用户规则; 用户要求; 约束",
            "規則; 使用者規則; 用戶規則",
            "ルール; ユーザールール; ユーザーのルール; ユーザー規則; 利用者のルール; 制約",
            "규칙; 사용자 규칙; 사용자 지침; 제약",
        ],
    ),
    (SectionKind::WhatChanged, &["changes; what changed this session"]),
    (SectionKind::Transitions, &["transitions; status changes"]),
];

/// The section that a heading names in other words, in small letters and without marks.
pub(super) fn find_section_kind(heading: &str) -> Option<SectionKind> {
    static NAMES: LazyLock<HashMap<&str, SectionKind>> = LazyLock::new(|| {
        let words = |(kind, lines): &(SectionKind, &[&'static str])| {
            let kind = *kind;
            lines.iter().flat_map(|line| line.split("; ")).map(move |word| (word, kind)).collect::<Vec<_>>()
        };
        SECTION_NAMES.iter().flat_map(words).collect()
    });
    NAMES.get(heading).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_one_section() {
        let mut all: Vec<(&str, SectionKind)> = Vec::new();
        for (kind, lines) in SECTION_NAMES {
            for word in lines.iter().flat_map(|line| line.split("; ")) {
                assert_eq!(word, word.trim().to_lowercase(), "{word:?} could not be found");
                let known = all.iter().find(|(known, _)| *known == word);
                assert_eq!(known, None, "{word:?} is there twice");
                assert_eq!(find_section_kind(word), Some(kind));
                all.push((word, kind));
            }
        }
    }
}
