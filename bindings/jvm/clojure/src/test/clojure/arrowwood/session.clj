(ns arrowwood.session
  "Evaluates the code of a page of the docs like a REPL, in the current folder. Prints, as EDN, for each block of code that
  is followed by a block of text: its line, the text, and what the REPL printed."
  (:import
   (java.io PushbackReader StringReader StringWriter)))

(def ^:private block-pattern
  "Matches a block of Markdown: what it needs, its language and its text."
  #"(?ms)(?:^<!-- needs ([^\n]*?) -->\n)?^```(\w+)\n(.*?)^```$")

(defn- line-number [text offset]
  (inc (count (filter #{\newline} (subs text 0 offset)))))

(defn- parse-blocks [page]
  (let [matcher (re-matcher block-pattern page)]
    (loop [blocks []]
      (if (.find matcher)
        (recur (conj blocks {:requirement (.group matcher 1)
                             :language (.group matcher 2)
                             :text (.group matcher 3)
                             :line (line-number page (.start matcher))}))
        blocks))))

(defn- eval-all
  "Evaluates all forms of a text; returns what a REPL prints, except for vars and nil."
  [text]
  (let [out (StringWriter.)
        reader (PushbackReader. (StringReader. text))]
    (binding [*out* out]
      (loop []
        (let [form (read {:eof ::end} reader)]
          (when-not (= ::end form)
            (let [value (eval form)]
              (when-not (or (nil? value) (var? value)) (prn value)))
            (recur)))))
    (str out)))

(defn- run-block
  "Evaluates a block of code; returns its result, or nil if the next block isn't its output."
  [{:keys [requirement line text]} next-block available]
  (if (and requirement (not-any? #{requirement} available))
    {:line line :left-out requirement}
    (let [printed (eval-all text)]
      (when (= "text" (:language next-block))
        {:line line :expected (:text next-block) :printed printed}))))

(defn -main [page & available]
  (let [blocks (parse-blocks (slurp page))
        results (binding [*ns* (create-ns 'user)]
                  (refer-clojure)
                  (into []
                        (keep (fn [[block next-block]]
                                (when (= "clojure" (:language block))
                                  (run-block block next-block available))))
                        (partition 2 1 [nil] blocks)))]
    (prn results)
    (shutdown-agents)))
