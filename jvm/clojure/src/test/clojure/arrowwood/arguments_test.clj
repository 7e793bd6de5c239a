(ns arrowwood.arguments-test
  "Slips: what is misspelled, or has no order, is refused, in messages that anybody can read."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.impl.arguments :as arguments]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (java.util HashMap HashSet LinkedHashMap)))

(defn- file []
  (let [folder (programs/folder) csv (io/file folder "n.csv") file (io/file folder "n.arrow")]
    (spit csv "n,x\n1,1.5\n2,2.5\n")
    (aw/write (aw/read-csv csv) file)
    file))

(defn- failure [work] (try (work) nil (catch Exception e e)))

(defn- message [work] (some-> ^Exception (failure work) .getMessage))

;; ---- options ----

(defn- calls
  "Functions that take options, each as a call with them, the options it has, and slips for some of them."
  []
  (let [file (file) ds (aw/open file) table (io/file (programs/folder) "t")]
    (aw/commit! (aw/append! (aw/writer table "n: int64") [1]))
    {#'aw/open [#(aw/open file %) [:validate :copy :strict :partial :arena] {:valdiate :validate :coppy :copy}]
     #'aw/open-bytes [#(aw/open-bytes (java.nio.file.Files/readAllBytes (.toPath file)) %)
                      [:validate :copy :strict :partial] {:validated :validate "copy" :copy}]
     #'aw/read-csv [#(aw/read-csv (io/file (.getParent file) "n.csv") %) [:schema :dictionary :delimiter]
                    {:delimeter :delimiter :dict :dictionary}]
     #'aw/write [#(aw/write ds (io/file (.getParent file) "w.arrow") %) [:format :compression :max-rows]
                 {:compress :compression :max_rows :max-rows :maxRows :max-rows}]
     #'aw/aggregate [#(aw/aggregate ds [] {:n [:count]} %) [:where] {:were :where :wheer :where}]
     #'aw/chunks [#(aw/chunks (ds :n) %) [:checked :aligned] {:check :checked :alligned :aligned}]
     #'aw/writer [#(.close ^java.lang.AutoCloseable (aw/writer (io/file (programs/folder) "w") "n: int64" %))
                  [:sorted-by :late :index :dictionary :sync :sync-interval-ms :segment-rows :force]
                  {:sort-by :sorted-by :sorted_by :sorted-by :segment-row :segment-rows :indexes :index}]
     #'aw/commit! [#(with-open [writer (aw/writer (io/file (programs/folder) "w") "n: int64")] (aw/commit! writer %))
                   [:positions :durable] {:position :positions :durably :durable}]
     #'aw/follow [#(.close ^java.lang.AutoCloseable (aw/follow table %)) [:from :timeout-ms]
                  {:timeout :timeout-ms :form :from}]}))

(defn- takes-options? [v]
  (some #(or (= 'options (last %)) (map? (last %))) (:arglists (meta v))))

(deftest unknown-options-are-refused
  (let [calls (calls)]
    (is (= (set (clojure.core/filter takes-options? (vals (ns-publics 'arrowwood.core)))) (set (keys calls)))
        "each function with options is here")
    (doseq [[function [call known slips]] calls]
      (is (nil? (failure #(call nil))) (str function))
      (is (nil? (failure #(call {}))) (str function))
      (doseq [option known]
        (is (str/includes? (:doc (meta function)) (str option)) (str function " documents " option)))
      (doseq [slip (concat (keys slips) [:nothing nil (vec (range 1000))])]
        (let [exception (failure #(call {slip true}))]
          (is (instance? IllegalArgumentException exception) (str function " " slip))
          (is (str/includes? (ex-message exception) (str "has no option " (arguments/printable slip))) (str function))
          (is (str/includes? (ex-message exception) (str "there are " (str/join ", " known))) (str function))))
      (doseq [[slip meant] slips]
        (is (str/includes? (message #(call {slip true})) (str "perhaps it is " meant ";")) (str function " " slip)))
      (is (instance? IllegalArgumentException (failure #(call [:where 1]))) (str function)))))

(deftest other-maps-have-known-keys-too
  (let [table (io/file (programs/folder) "t")]
    (is (str/includes? (message #(aw/writer table [{:name :n :type :int64 :nulable false}])) "perhaps it is :nullable"))
    (with-open [writer (aw/writer table "i: interval[month_day_nano]")]
      (is (str/includes? (message #(aw/append! writer {:i {:months 1 :dyas 2}})) "perhaps it is :days"))
      (aw/append! writer {:i {:months 1 :days 2}}))))

(deftest what-conditions-and-aggregates-would-ignore-is-refused
  (let [ds (aw/open (file))]
    (doseq [condition [[:> :n] [:> :n 1 2] [:in :n 1 2] [:null :n 1] [:null] [:and] [:or] [:not]
                       [:not [:> :n 1] [:> :n 2]] [:= :n 1 :x 2] []]]
      (is (instance? IllegalArgumentException (failure #(aw/filter ds condition))) (str condition)))
    (is (= 1 (aw/row-count (aw/filter ds [:and [:> :n 1]]))))
    (doseq [aggregate [[:mean :n :x] [] :count nil]]
      (is (instance? IllegalArgumentException (failure #(aw/aggregate ds [] {:a aggregate}))) (str aggregate)))))

;; ---- order ----

(deftest columns-of-what-has-no-order-are-refused
  (let [names (mapv #(keyword (str "c" %)) (range 9))
        pairs (mapv #(vector % :int64) names)
        table #(io/file (programs/folder) "t")
        columns #(with-open [writer (aw/writer (table) %)] (mapv (fn [field] (keyword (.name field))) (.fields (.schema writer))))]
    (doseq [schema [(into {} pairs) (hash-map :b :int64 :a :int64) (set pairs) (HashMap. {:b :int64 :a :int64})
                    (HashSet. pairs)]]
      (is (str/includes? (message #(columns schema)) "has none: give a vector") (str schema))
      (is (instance? IllegalArgumentException (failure #(aw/read-csv "nowhere.csv" {:schema schema})))))
    (is (= names (columns pairs) (columns (apply array-map (mapcat identity pairs))) (columns (into (sorted-map) pairs))
           (columns (LinkedHashMap. ^java.util.Map (apply array-map (mapcat identity pairs)))) (columns (seq pairs))))
    (is (= [:b :a] (columns {:b :int64 :a :int64}) (columns (array-map :b :int64 :a :int64))))
    (is (= [:a] (columns (hash-map :a :int64)) (columns #{[:a :int64]})) "one alone is in order")
    (let [ds (aw/open (file))]
      (doseq [work [#(aw/select ds #{:n :x}) #(aw/select ds (HashSet. [:n :x])) #(aw/aggregate ds #{:n :x} {:a [:count]})
                    #(aw/aggregate ds [] (hash-map :a [:count] :b [:count]))
                    #(aw/aggregate ds [] (into {} (map (fn [name] [name [:count]])) names))]]
        (is (str/includes? (message work) "has none: give a vector")))
      (is (= names (mapv :name (aw/schema (aw/aggregate ds [] (mapv (fn [name] [name [:count]]) names)))))))))

;; ---- messages ----

(defn- outcome
  "What calling a function says, :returned, or :hangs."
  [function arguments]
  (let [said (promise)
        thread (Thread. (fn [] (deliver said (try (apply function arguments) :returned
                                                  (catch Throwable e (str (class e) " " (ex-message e)))))))]
    (.setDaemon thread true)
    (.start thread)
    (try (programs/value "the message of a slip" said) (catch AssertionError _ :hangs))))

(deftest messages-show-a-part-of-an-argument
  (let [functions (clojure.core/filter #(and (:arglists (meta %)) (fn? @%) (not (:macro (meta %))))
                                       (vals (ns-publics 'arrowwood.core)))
        ;; Rows that are appended, and their parts, are gone through.
        endless {"no end" #(range) "no end of maps" #(map (fn [n] {:n n}) (range)) "no end inside" #(vector (range))}
        large (update-vals {"long text" (str/join (repeat 1000000 "x")) "a million" (vec (range 1000000))
                            "large map" (into {} (map (fn [n] [n n])) (range 100000))
                            "long keyword" (keyword (str/join (repeat 1000000 "x")))
                            "deep" (nth (iterate vector 1) 1000)
                            "what fails" (map (fn [_] (throw (ex-info "lazily" {}))) [1 2])}
                           constantly)]
    (is (< 60 (count functions)))
    (doseq [function functions
            arglist (:arglists (meta function))
            :when (not-any? #{'&} arglist)
            [what argument] (merge endless large)
            :let [said (outcome @function (repeatedly (count arglist) argument))]]
      (is (or (= :returned said) (and (string? said) (< (count said) 2500)))
          (str function " " arglist " of " what ": " (if (string? said) (subs said 0 (min 300 (count said))) said))))))

(deftest messages-of-right-calls-with-large-values-are-short
  (let [ds (aw/open (file)) long-text (str/join (repeat 1000000 "x")) many (vec (range 1000000))
        table (io/file (programs/folder) "t")
        short? #(let [said (message %)] (and said (< (count said) 2500)))]
    (with-open [writer (aw/writer table "n: int64, d: decimal128(5, 1), ts: timestamp[us], i: interval[month_day_nano]")]
      (doseq [[what work]
              {"filter" #(aw/filter ds long-text) "filter, many" #(aw/filter ds many) "a column" #(aw/filter ds [:> long-text 1])
               "a value" #(aw/filter ds [:> :n long-text]) "values" #(aw/filter ds [:in :n (repeat 100000 "x")])
               "no value" #(aw/filter ds [:> :n many])
               "an operator" #(aw/filter ds [(keyword long-text) :n 1])
               "a column of a dataset" #(ds long-text) "one named otherwise" #(ds many) "select" #(aw/select ds [long-text])
               "aggregate" #(aw/aggregate ds [] {:a [(keyword long-text) :n]}) "of a column" #(aw/aggregate ds [] {:a [:sum long-text]})
               "by" #(aw/aggregate ds [long-text] {:a [:count]}) "options" #(aw/aggregate ds [] {:a [:count]} {long-text 1})
               "a schema" #(aw/writer table long-text) "a type" #(aw/writer table {:n long-text})
               "a row" #(aw/append! writer {long-text 1}) "a cell" #(aw/append! writer {:n long-text})
               "a cell of many" #(aw/append! writer {:n many}) "many digits" #(aw/append! writer {:d (bigdec (apply str "1" (repeat 100000 "0")))})
               "a time" #(aw/append! writer {:ts long-text})
               "a position" #(aw/commit! writer {:positions {long-text 1}})
               "a position without an end" #(aw/commit! writer {:positions {(str long-text \u0000) 1}})
               "a path" #(aw/open long-text) "a path with NUL" #(aw/open (str long-text \u0000)) "a path, many" #(aw/open many)
               "between" #(aw/between ds long-text long-text) "an index" #((ds :n) many) "a type of memory" #(aw/typed (aw/map (file)) many)}]
        (is (short? work) (str what ": " (some-> (message work) count)))))))

(deftest numbers-are-said-as-they-were-given
  (let [ds (aw/open (file))
        csv (io/file (programs/folder) "many.csv")
        _ (spit csv (apply str "n\n" (repeat 65536 "1\n")))
        times #(apply aw/concat (repeat 256 %))
        all (times (times (aw/read-csv csv)))]
    (doseq [work [#(nth ds -1) #(aw/row ds -1) #(nth (ds :n) -1) #(aw/head ds -1) #(aw/sample ds -1 0)]]
      (is (re-find #"-1" (message work)) (str work)))
    (is (= 4294967296 (aw/row-count all)))
    (doseq [work [#(count all) #(count (all :n))]]
      (is (re-find #"4294967296 rows .*`row-count`" (message work))))))
